"""`python -m benchmarks [frame|gemini_frame|turn|store|text|adk|soak]...`: answers each question with a small table; without one, all."""

from __future__ import annotations

import importlib
import os
import sys

QUESTIONS = {
    "frame": "CPU and delay per audio frame: the shell alone, the whole server, beside a bare relay on the same transport",
    "gemini_frame": "CPU per audio frame between the gateway and Gemini Live, beside the vendor's SDK: with a stub, and over TLS",
    "turn": "end of speech to first audio, with the local voice through the whole server",
    "store": "appends a second, and opening a session of 10 to 5,000 events",
    "text": "a text turn beside its model: by length of the session and by store; the prompt alone; streaming",
    "adk": "turns a second beside google-adk's Runner, which is installed for it into an environment of its own",
    "soak": "an hour of one call in virtual time: memory, tasks, stored events",
}


def main(arguments: list[str]) -> int:
    """Run the questions named, in order; 2 for one that does not exist."""
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        print("PYTHONDONTWRITEBYTECODE is set: imports cost more than they do in use; unset it for figures worth keeping.", file=sys.stderr)
    unknown = [name for name in arguments if name not in QUESTIONS]
    if unknown:
        print(f"no such question: {', '.join(unknown)}. There are:", file=sys.stderr)
        for name, words in QUESTIONS.items():
            print(f"  {name:12} {words}", file=sys.stderr)
        return 2
    for name in arguments or QUESTIONS:
        print(f"\n{name}: {QUESTIONS[name]}")
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
