"""The CUDA driver, through cuda-bindings: modules, functions, their attributes.  Imported only where there is a GPU."""

import ctypes
from typing import Any

from inferno.errors import LaunchError

_PORTABLE = 8  # blocks of a cluster that any GPU with clusters has


def _bindings() -> Any:
    from cuda.bindings import driver

    return driver


def check(result: tuple, doing: str) -> Any:
    """The value of a driver call; LaunchError names the driver's error and what was being done."""
    driver = _bindings()
    code, *values = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise LaunchError(f"{doing}: {describe(int(code))}")
    return values[0] if len(values) == 1 else values


def describe(code: int) -> str:
    """The name and text of a CUresult."""
    driver = _bindings()
    try:
        name = driver.CUresult(code).name
        text = driver.cuGetErrorString(driver.CUresult(code))[1]
        return f"{name} ({text.decode() if text else 'no description'})"
    except ValueError:
        return f"CUDA error {code}"


def current_context() -> int:
    """The handle of this thread's context; 0 where none is current."""
    return int(check(_bindings().cuCtxGetCurrent(), "asking for the current context"))


def make_current(context: int) -> None:
    """Make a context this thread's, if it has none."""
    if not current_context():
        check(_bindings().cuCtxSetCurrent(context), "making a context current")


def load(binary: bytes, name: str) -> Any:
    """Load a cubin, or PTX text for the driver to assemble, into the current context."""
    driver = _bindings()
    data = binary if binary[:4] == b"\x7fELF" else binary + b"\0"
    return check(driver.cuModuleLoadData(data), f"loading kernel {name}")


def function(module: Any, name: str, shared: int, cluster: int = 1) -> int:
    """The handle of a kernel, ready to be launched with ``shared`` bytes of dynamic shared memory and clusters of ``cluster`` blocks."""
    return int(_function(module, name, shared, cluster))


def _function(module: Any, name: str, shared: int, cluster: int = 1) -> Any:
    driver = _bindings()
    handle = check(driver.cuModuleGetFunction(module, name.encode()), f"finding kernel {name}")
    if shared:  # beyond 48 KB, static shared memory counted in, it must be asked for
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(driver.cuFuncSetAttribute(handle, attribute, shared), f"giving kernel {name} {shared} bytes of shared memory")
    if cluster > _PORTABLE:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(driver.cuFuncSetAttribute(handle, attribute, 1), f"giving kernel {name} clusters of {cluster} blocks")
    return handle


def occupancy(module: Any, name: str, threads: int, shared: int) -> tuple[int, int]:
    """Bytes of static shared memory of a kernel, and how many blocks of so many threads, with so many bytes of dynamic shared memory, a multiprocessor has
    room for."""
    driver, handle = _bindings(), _function(module, name, shared)  # which lets it have so many: of more than it may have the driver would say that none fits
    static = check(driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle), f"asking for kernel {name}'s memory")
    resident = check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, shared), f"asking for kernel {name}'s blocks")
    return int(static), int(resident)


def multiprocessors(device: int) -> tuple[int, int, int]:
    """How many a device has, bytes of shared memory of each, and the most that a block may have."""
    driver = _bindings()
    names = ("MULTIPROCESSOR_COUNT", "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    attributes = [getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}") for name in names]
    count, shared, most = (int(check(driver.cuDeviceGetAttribute(a, device), f"asking for device {device}'s size")) for a in attributes)
    return count, shared, most


def address(name: str) -> int:
    """The address of a function of the driver's library, for native code to call."""
    library = ctypes.CDLL("libcuda.so.1")
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
