import os
from pathlib import Path

# Tests run side by side, one thread each: small steps on many threads wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fedcast", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("fedcast")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real datasets, or a skip that says how to have one."""
    folder = os.environ.get("FEDCAST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real datasets are tested only where FEDCAST_DATA names a folder that holds them")
    return Path(folder)


@pytest.fixture
def no_kernel_cache(monkeypatch) -> None:
    """As if numba found no folder to keep machine code in."""
    import numba

    real = numba.njit

    def read_only(function=None, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", read_only)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> Path:
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv("FEDCAST_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setattr("fedcast.data.files.cache_folder", lambda: cache)
    return cache
