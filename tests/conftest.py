"""Keras reads its backend when it is imported."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
