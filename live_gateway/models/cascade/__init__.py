"""A live model made of parts: voice activity, recognition, any text model, synthesis.

`CascadeLiveModel.local(model)` takes the parts from this machine; each may be replaced by an own one (`live_gateway.voice.base`).
"""

from live_gateway.models.cascade.limits import CascadeLimits
from live_gateway.models.cascade.model import CascadeLiveModel

__all__ = ["CascadeLimits", "CascadeLiveModel"]
