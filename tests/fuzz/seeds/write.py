#!/usr/bin/env python3
"""Writes the corpora of the fuzz targets that take binary files: small ones, which load."""
import runpy
from pathlib import Path

for formats in ("gguf", "vocabularies", "chat", "tokenizers", "checkpoints"):
    runpy.run_path(str(Path(__file__).with_name(f"{formats}.py")))
