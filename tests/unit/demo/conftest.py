"""The demo's tests need the demo's packages."""

import pytest

pytest.importorskip("rich")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")
