"""The named pipelines: one for each step between two stages.  ``$name`` is an option of the pipeline."""

PIPELINES = {
    "inferno-import": (
        "func.func(torch-match-quantized-custom-ops),"
        "torchdynamo-export-to-torch-backend-pipeline{extra-library=},"
        "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true}"
    ),
    "inferno-fuse": (
        "remove-asserts,func.func(canonicalize,cse),lift-constants,"
        "outline-kernels,deduplicate-kernels"
    ),
    "inferno-schedule": "assign-schedules{target=$target}",
    "inferno-generate": "generate-kernels{target=$target},plan-launches,plan-memory",
    "inferno-lower": "",
}
