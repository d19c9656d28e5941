"""When a connection to Gemini Live is to be taken up anew, and how: a state machine without a socket and without a clock.

| what happened | what follows |
|---|---|
| 1001, 1006, 1012, 1013, 1014, end of file, reset, refused, HTTP 5xx | dial again, with the handle if there is one |
| 1000 | the same with a handle; without one the model ended the session, and so do we |
| 1011 | one resume; again: a fresh session, told its history |
| 1007 while resuming, or in mid session | drop the handle; one fresh session, told the newest of its history; 1007 there: given up |
| 1007 at a fresh set-up, before there ever was a session | given up: the set-up itself, since history is told only after it |
| a close at set-up that says that the model is not served live | given up at once |
| 1008 at set-up, HTTP 4xx | given up: key, model or policy. With a handle in the set-up, which may be the reason, one fresh try |
| 1008 in mid session | one resume, then given up |
| 429, or a close or an error that names the quota | given up at once |
| any other code | given up; the same would happen again |
| set-up takes longer than 10 s | one more try while opening; later as a refused dial |
| no byte for 30 s while the model owes an answer | as 1006 |
| go-away, or 9 minutes up | rotate at the first safe point (turn complete, no call open, newest handle good), by force 5 s before the end |

Tries wait 250 ms, doubled each time up to 5 s, +-20 %; there are 8 of them (3 while opening), and all again only after 30 s up. The old
socket is closed before the new one is dialled. A handle from before a call that is still open is not used: the model that it brings back
would not know the call. Codes are numbers here, never words in a message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from live_gateway.errors import ContextExhausted, ModelError, ModelNotLive, SetupTimeout, UpstreamLost, UpstreamPolicy, UpstreamQuota
from live_gateway.models.gemini_traffic import Traffic

FIRST_WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 5.0
JITTER: Final = 0.2
TRIES: Final = 8
OPENING_TRIES: Final = 3
REFILLED_AFTER_S: Final = 30.0
STALLED_AFTER_S: Final = 30.0
ROTATE_AFTER_S: Final = 9 * 60.0
ROTATE_BY_S: Final = 55 * 60.0
"""A connection was seen closed after 58 minutes, whatever happened in it."""
BEFORE_THE_END_S: Final = 5.0
"""How long before the announced end a rotation no longer waits for a safe point."""
SEED_TOKENS: Final = 64_000
SMALL_SEED_TOKENS: Final = 8_000

_AGAIN: Final = frozenset({1001, 1006, 1012, 1013, 1014})
_NORMAL, _INVALID, _POLICY, _INTERNAL = 1000, 1007, 1008, 1011


@dataclass(frozen=True, slots=True)
class Loss:
    """How a connection, or the attempt to make one, came to its end.

    kind: `closed` (code is the close code, 1006 without a close frame), `refused` (no connection, or HTTP status `code` instead of one),
    `timeout` (the set-up was not complete in time), `stalled`. reason: the other side's words. quota: it named the quota. not_live: it
    said that the model is not served live.
    """

    kind: Literal["closed", "refused", "timeout", "stalled"]
    code: int = 0
    reason: str = ""
    quota: bool = False
    not_live: bool = False

    def __str__(self) -> str:
        words = f": {self.reason}" if self.reason else ""
        if self.kind == "closed":
            return f"closed with {self.code}{words}"
        if self.kind == "refused":
            return f"refused with HTTP {self.code}{words}" if self.code else f"no connection{words}"
        return "not ready in time" if self.kind == "timeout" else "no byte for too long"


@dataclass(frozen=True, slots=True)
class Dial:
    """Dial after so many seconds: resume with the handle, or begin anew and tell so much of the history."""

    after_s: float
    handle: str | None
    seed_tokens: int = SEED_TOKENS


@dataclass(frozen=True, slots=True)
class Finish:
    """It is over: in an orderly way, or with this error."""

    error: ModelError | None


Decision: TypeAlias = Dial | Finish


@dataclass(slots=True)
class _Outage:
    """What was tried since a connection last held for `REFILLED_AFTER_S`: dials, waits, rotations, and losses of each special kind."""

    tries: int = 0
    waits: int = 0
    rotations: int = 0
    timeouts: int = 0
    internals: int = 0
    invalids: int = 0
    policies: int = 0


class ReconnectPolicy:
    """One session's policy, over all of its connections. Times are monotonic seconds.

    handle: to begin with. jitter: gives a factor around 1, anew for each wait. traffic: what is under way; the policy only reads it.
    """

    def __init__(
        self,
        traffic: Traffic,
        *,
        resumption: bool = True,
        handle: str | None = None,
        rotate_after_s: float = ROTATE_AFTER_S,
        stalled_after_s: float = STALLED_AFTER_S,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._traffic = traffic
        self._resumption = resumption
        self._handle = handle if resumption else None
        self._resumable_now = self._handle is not None
        self._rotate_after_s = rotate_after_s
        self._stalled_after_s = stalled_after_s
        self._jitter = jitter
        self._opened = False
        self._up_at: float | None = None
        self._ends_at: float | None = None
        self._dialled: Dial = Dial(0.0, self._handle)
        self._outage = _Outage()

    @property
    def handle(self) -> str | None:
        """What can be resumed now; None if nothing can, or only a state that does not know a call which is open."""
        return None if self._traffic.has_new_calls else self._handle

    def begin(self) -> Dial:
        """The session's first dial."""
        self._outage.tries = 1
        self._dialled = Dial(0.0, self.handle)
        return self._dialled

    def up(self, now: float) -> None:
        """The set-up is complete."""
        self._opened = True
        self._up_at = now
        self._ends_at = None
        if self._dialled.handle is None:
            self._handle, self._resumable_now = None, False

    def update(self, handle: str | None) -> None:
        """The model's state can be resumed with this; None: it cannot now. An earlier handle is kept for then."""
        self._resumable_now = handle is not None
        self._handle = handle or self._handle

    def go_away(self, time_left_s: float, now: float) -> None:
        """The model will close the connection."""
        ends_at = now + time_left_s
        self._ends_at = ends_at if self._ends_at is None else min(self._ends_at, ends_at)

    def due(self, now: float) -> Literal["rotate", "stalled"] | None:
        """What is to be done now without the connection's having ended."""
        if self._up_at is None:
            return None
        owed_since = self._traffic.owed_since
        if owed_since is not None and now >= owed_since + self._stalled_after_s:
            return "stalled"
        if now >= self._forced_at(self._up_at):
            return "rotate"
        if self._ends_at is not None:
            return "rotate" if self._traffic.idle(now) and (self._resumable_now or self._handle is None) else None
        if now >= self._up_at + self._rotate_after_s and self._traffic.idle(now) and self._resumable_now:
            return "rotate"
        return None

    def deadline(self, now: float) -> float | None:
        """When to ask `due` again, if no message comes before."""
        if self._up_at is None:
            return None
        times = [self._forced_at(self._up_at)]
        if self._ends_at is not None:
            times.append(self._traffic.quiet_from)
        elif self._resumable_now:
            times.append(max(self._up_at + self._rotate_after_s, self._traffic.quiet_from))
        if self._traffic.owed_since is not None:
            times.append(self._traffic.owed_since + self._stalled_after_s)
        return min((time for time in times if time > now), default=None)

    def rotate(self, now: float) -> Decision:
        """Change to a new connection, the old one being well: at once, unless that was done a moment ago."""
        self._refill(now)
        self._up_at = None
        if not self._outage.rotations:
            self._outage.rotations = 1
            self._outage.tries += 1
            return self._dial(0.0, self.handle)
        return self._again(Loss("closed", 1001, "go-away, again and again"), self.handle)

    def lost(self, loss: Loss, now: float) -> Decision:
        """A connection, or the attempt to make one, has failed."""
        self._refill(now)
        in_setup = self._up_at is None
        self._up_at = None
        decision = self._judge(loss, in_setup=in_setup)
        if isinstance(decision, Finish):
            return decision
        return self._again(loss, decision.handle, decision.seed_tokens)

    def _again(self, loss: Loss, handle: str | None, seed_tokens: int = SEED_TOKENS) -> Decision:
        if self._outage.tries >= (TRIES if self._opened else OPENING_TRIES):
            return Finish(_given_up(loss, self._outage.tries))
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**self._outage.waits)
        self._outage.waits += 1
        self._outage.tries += 1
        return self._dial(wait * self._jitter(), handle, seed_tokens)

    def _judge(self, loss: Loss, *, in_setup: bool) -> Decision:
        """What to do, but for the wait and the number of tries."""
        if loss.quota:
            return Finish(UpstreamQuota(f"the model's provider refuses for quota ({loss})"))
        if loss.not_live and in_setup:
            return Finish(ModelNotLive(f"the provider does not serve this model live ({loss}): choose another model"))
        if loss.kind == "refused":
            return self._refused(loss)
        if loss.kind == "timeout":
            self._outage.timeouts += 1
            if not self._opened and self._outage.timeouts > 1:
                return Finish(SetupTimeout("the model was not ready in time, twice"))
        if loss.kind != "closed" or loss.code in _AGAIN:
            return Dial(0.0, self.handle)
        if loss.code == _NORMAL:
            return Finish(None) if self._handle is None and not in_setup else Dial(0.0, self.handle)
        if loss.code == _INTERNAL:
            self._outage.internals += 1
            return Dial(0.0, self.handle if self._outage.internals == 1 else None)
        if loss.code == _INVALID:
            return self._invalid(loss, in_setup=in_setup)
        if loss.code == _POLICY:
            return self._policy(loss, in_setup=in_setup)
        return Finish(UpstreamLost(f"the model's connection was {loss}"))

    def _refused(self, loss: Loss) -> Decision:
        if loss.code == 429:
            return Finish(UpstreamQuota(f"the model's provider refuses for quota ({loss})"))
        if 300 <= loss.code < 500:
            return Finish(UpstreamPolicy(f"the model's provider refuses the connection ({loss}): check key, model and project"))
        return Dial(0.0, self.handle)

    def _invalid(self, loss: Loss, *, in_setup: bool) -> Decision:
        fresh = self._dialled.handle is None
        if in_setup and fresh and not self._opened:
            return Finish(UpstreamPolicy(f"the model's provider does not take the set-up ({loss}): check model and configuration"))
        if self._outage.invalids or (in_setup and fresh):
            return Finish(ContextExhausted(f"the model takes neither the set-up nor the history as valid ({loss})"))
        self._outage.invalids += 1
        return Dial(0.0, None, SMALL_SEED_TOKENS)

    def _policy(self, loss: Loss, *, in_setup: bool) -> Decision:
        self._outage.policies += 1
        refusal = Finish(UpstreamPolicy(f"the model's provider refuses ({loss}): check key, model and policy"))
        if in_setup:
            return refusal if self._dialled.handle is None or self._outage.policies > 1 else Dial(0.0, None)
        return refusal if self._outage.policies > 1 else Dial(0.0, self.handle)

    def _dial(self, after_s: float, handle: str | None, seed_tokens: int = SEED_TOKENS) -> Dial:
        self._dialled = Dial(after_s, handle, seed_tokens)
        return self._dialled

    def _refill(self, now: float) -> None:
        if self._up_at is not None and now >= self._up_at + REFILLED_AFTER_S:
            self._outage = _Outage()

    def _forced_at(self, up_at: float) -> float:
        by_age = up_at + ROTATE_BY_S
        return by_age if self._ends_at is None else min(by_age, self._ends_at - BEFORE_THE_END_S)


def _given_up(loss: Loss, tries: int) -> ModelError:
    if loss.kind == "timeout":
        return SetupTimeout(f"the model was not ready in time, after {tries} tries")
    return UpstreamLost(f"the connection to the model could not be made after {tries} tries; the last was {loss}")
