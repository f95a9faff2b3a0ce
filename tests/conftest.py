import os
from pathlib import Path

# Tests run side by side, one thread each: small steps on many threads wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fedcast", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("fedcast")


TESTS = Path(__file__).parent

# Files and names of tests that `make quick` leaves to `make test`, and what is said of them.
LONG_TESTS = dict(line.partition(" ")[::2] for line in (TESTS / "long_tests.txt").read_text().splitlines())


def _file(path):
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


class OnlyExamples:
    """Collect only modules of the packages that have examples: importing all takes seconds, and some need an extra."""

    @staticmethod
    def pytest_ignore_collect(collection_path):
        module = collection_path.suffix == ".py" and not collection_path.is_relative_to(TESTS)
        return True if module and ">>>" not in collection_path.read_text(encoding="utf-8") else None


def pytest_configure(config):
    config.pluginmanager.register(OnlyExamples())


def pytest_ignore_collect(collection_path, config):
    """Do not even import long files where their tests would be left out."""
    return True if "not long" in config.option.markexpr and _file(collection_path) in LONG_TESTS else None


def pytest_collection_modifyitems(items):
    for item in items:
        name, file = getattr(item, "originalname", item.name), _file(item.path)
        if name in LONG_TESTS or file in LONG_TESTS:
            item.add_marker("long")
        if "no_cover" in (LONG_TESTS.get(name), LONG_TESTS.get(file)):
            item.add_marker("no_cover")
    # Long files first, so that no process is left alone with one of them at the end.
    items.sort(key=lambda item: _file(item.path) not in LONG_TESTS)


def pytest_terminal_summary(terminalreporter):
    """Print what became of the inputs of the fuzzing campaign, also where workers ran it."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    called = [report.user_properties for report in reports if getattr(report, "when", None) == "call"]
    for name, counts in [value for properties in called for key, value in properties if key == "fuzzed"]:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
        terminalreporter.write_line(f"fuzzed {name}: {told}")


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
    monkeypatch.setattr("fedcast.data.catalogue.cache_folder", lambda: cache)
    return cache


@pytest.fixture
def registered(monkeypatch):
    """Return a function that registers a plug-in for the length of a test."""
    from fedcast import registry

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return registry.register
