"""Running a plan: native code for the GPU and the CPU, and an interpreter where there is no compiler."""
