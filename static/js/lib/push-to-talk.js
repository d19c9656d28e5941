/** Kept from before the button was pressed, so that the first syllable of a quick speaker survives. */
const PREROLL_CHUNKS = 5;

/**
 * Lets microphone chunks through while the button is held, from a little before until the end of the chunk in which it was
 * released.
 * @template Chunk
 */
export class PushToTalk {
  constructor() {
    /** @type {'closed' | 'open' | 'closing'} */
    this.state = 'closed';
    /** @type {Chunk[]} */
    this.preroll = [];
  }

  /** The button is pressed. Returns whether the activity begins with that. */
  press() {
    const begins = this.state === 'closed';
    this.state = 'open';
    return begins;
  }

  release() {
    if (this.state === 'open') this.state = 'closing';
  }

  /**
   * One chunk of the microphone.
   * @param {Chunk} chunk
   * @returns {{chunks: Chunk[], ends: boolean}} what to send, and whether the activity ends after it
   */
  feed(chunk) {
    if (this.state === 'closed') {
      this.preroll = [...this.preroll, chunk].slice(-PREROLL_CHUNKS);
      return { chunks: [], ends: false };
    }
    const chunks = [...this.preroll, chunk];
    this.preroll = [];
    const ends = this.state === 'closing';
    if (ends) this.state = 'closed';
    return { chunks, ends };
  }
}
