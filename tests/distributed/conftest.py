"""One job of two processes for all tests of this folder."""

import pytest

from tests.distributed.processes import Job


class Jobs:
    """The running job; a new one after a program that has failed, whose ranks may have parted."""

    def __init__(self):
        self.job = None

    def run(self, *args, **options):
        """Run a program on both ranks."""
        self.job = self.job or Job()
        try:
            return self.job.run(*args, **options)
        except (AssertionError, TimeoutError):
            self.close()
            raise

    def close(self):
        """End the processes."""
        if self.job is not None:
            self.job.close()
            self.job = None


@pytest.fixture(scope="package")
def job():
    """Two ranks that run programs."""
    jobs = Jobs()
    yield jobs
    jobs.close()
