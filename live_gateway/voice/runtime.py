"""What the embedded models share: where their packages lie, and how onnxruntime is set up. Heavy imports wait until they are needed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

INSTALL = 'pip install "live-gateway[voice]"'
"""The command that brings everything the embedded voice needs, where all of it has wheels."""


def package_directory(package: str) -> Path | None:
    """Where a package lies; None when it is not installed. The package is not imported."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def inference_session(file: Path) -> Any:
    """An onnxruntime session on one thread: on small models more threads only fight over the cores. It may be run by several threads."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
