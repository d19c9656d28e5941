"""Makes the sockets of one session: address, set-up and history anew each time, since each of them may have changed."""

from __future__ import annotations

from live_gateway.models.gemini_address import GeminiAccess
from live_gateway.models.gemini_inbound import GeminiInbound
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.gemini_outbox import Outbox
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.gemini_reconnect import Dial
from live_gateway.models.gemini_socket import Link
from live_gateway.models.gemini_wire import history_messages, setup_message
from live_gateway.models.live import LiveSetup


class Dialer:
    """Dials for one session. dials: how often it did."""

    def __init__(self, name: str, access: GeminiAccess, options: GeminiOptions, setup: LiveSetup, profile: GeminiProfile) -> None:
        self._name = name
        self._access = access
        self._options = options
        self._setup = setup
        self._profile = profile
        self.dials = 0

    async def history(self, dial: Dial, outbox: Outbox) -> list[bytes]:
        """What a fresh connection is told; what waits in the outbox is left to it. Raises `ModelError` if it cannot be sent."""
        if self._setup.history is None:
            return []
        history = await self._setup.history()
        contents = outbox.without_waiting(history.contents)
        answer = history.unanswered and not outbox.has_messages
        return history_messages(contents, self._profile, answer=answer, max_tokens=dial.seed_tokens)

    async def dial(self, dial: Dial, inbound: GeminiInbound, *, seeded: bool) -> Link:
        """A link whose set-up is complete. Raises `LinkLost`, `UpstreamPolicy` for credentials that cannot be used."""
        self.dials += 1
        setup, options = self._setup, self._options
        address = await self._access.address(self._name, preview=setup.affective_dialog or setup.proactivity)
        message = setup_message(
            address.model,
            setup,
            self._profile,
            vertex=self._access.vertexai,
            handle=dial.handle,
            resumed=self.dials > 1,
            seeded=seeded,
        )
        return await Link.open(address, message, inbound, tls=options.tls, setup_s=options.setup_s)
