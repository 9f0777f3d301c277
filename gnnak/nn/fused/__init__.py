"""The layer of the paper's experiments, with few passes over memory."""

from gnnak.nn.fused.layer import can_fuse, fused_encodings

__all__ = ["can_fuse", "fused_encodings"]
