// The one playhead. The browser owns time: a scene is told which cycle to show and never counts itself.
//
//   const time = clock({ cycles: 21, start: 0, chapters: [0, 4], frames: browserFrames(), signal });
//   time.onShow(({ cycle, playing }) => ...)   after every change; the kit draws here
//   time.onRest((cycle) => ...)                when the playhead has come to rest (pause, step, seek)
//   time.play(); time.step(-1); time.seek(7); time.home(); time.end(); time.chapter(+1);
//
// The frame source is passed in, so a test hands it fake time.

/** @typedef {{request: (callback: (milliseconds: number) => void) => number, cancel: (id: number) => void}} Frames */
/** @typedef {{cycle: number, playing: boolean, rate: number, stops: boolean}} Moment */
/** @typedef {ReturnType<typeof clock>} Clock */

/** The longest stretch one frame may stand for: a tab that was away does not leap. */
const LONGEST_FRAME = 250;

/** @returns {Frames} the browser's own frames */
export function browserFrames() {
  return {
    request: (callback) => requestAnimationFrame(callback),
    cancel: (id) => cancelAnimationFrame(id),
  };
}

/**
 * @param {{cycles: number, start?: number, rate?: number, chapters?: number[], frames: Frames, signal: AbortSignal}} options
 *   `cycles`: how many frames there are, shown as 0 .. cycles - 1; `rate`: cycles a second
 */
export function clock({ cycles, start = 0, rate = 1, chapters = [], frames, signal }) {
  const last = Math.max(0, cycles - 1);
  /** @type {Moment} */
  const now = { cycle: clamp(start), playing: false, rate, stops: false };
  /** @type {((moment: Moment) => void)[]} */
  const shows = [];
  /** @type {((cycle: number) => void)[]} */
  const rests = [];
  /** @type {number | null} */
  let request = null;
  let before = NaN;
  let owed = 0; // cycles of time passed but not yet shown, below 1
  let visible = true;

  /** @param {number} cycle @returns {number} */
  function clamp(cycle) {
    return Math.min(last, Math.max(0, Math.round(cycle)));
  }

  function show() {
    for (const listener of shows) listener({ ...now });
  }

  function rest() {
    for (const listener of rests) listener(now.cycle);
  }

  function halt() {
    if (request !== null) frames.cancel(request);
    request = null;
    before = NaN;
  }

  function ask() {
    if (request === null && now.playing && visible && !signal.aborted) request = frames.request(tick);
  }

  /** @param {number} milliseconds */
  function tick(milliseconds) {
    request = null;
    if (!Number.isNaN(before)) owed += (Math.min(milliseconds - before, LONGEST_FRAME) * now.rate) / 1000;
    before = milliseconds;
    // A small allowance, so that 60 cycles a second on a 60 Hz screen is one cycle a frame.
    const whole = Math.floor(owed + 0.02);
    if (whole >= 1) {
      owed = Math.max(0, owed - whole);
      let next = Math.min(last, now.cycle + whole);
      const stop = now.stops ? chapters.find((cycle) => cycle > now.cycle && cycle <= next) : undefined;
      if (stop !== undefined) next = stop;
      now.cycle = next;
      if (next === last || stop !== undefined) {
        now.playing = false;
        halt();
        show();
        rest();
        return;
      }
      show();
    }
    ask();
  }

  /** @param {number} cycle */
  function move(cycle) {
    now.cycle = clamp(cycle);
    owed = 0;
    show();
    if (!now.playing) rest();
  }

  function pause() {
    if (!now.playing) return;
    now.playing = false;
    halt();
    show();
    rest();
  }

  function play() {
    if (now.playing || last === 0) return;
    if (now.cycle === last) now.cycle = 0;
    now.playing = true;
    owed = 0;
    show();
    ask();
  }

  signal.addEventListener("abort", () => {
    now.playing = false;
    halt();
    shows.length = 0;
    rests.length = 0;
  }, { once: true });

  return {
    /** @returns {Moment} */
    now: () => ({ ...now }),
    last,
    play,
    pause,
    toggle: () => (now.playing ? pause() : play()),
    /** Pause, then move by whole cycles. @param {number} by */
    step(by) {
      if (now.playing) {
        now.playing = false;
        halt();
      }
      move(now.cycle + by);
    },
    /** @param {number} cycle */
    seek: (cycle) => move(cycle),
    home: () => move(0),
    end() {
      if (now.playing) {
        now.playing = false;
        halt();
      }
      move(last);
    },
    /** To the beginning of the chapter before or after. @param {number} by -1 or +1 */
    chapter(by) {
      const target = by > 0
        ? chapters.find((cycle) => cycle > now.cycle) ?? last
        : [...chapters].reverse().find((cycle) => cycle < now.cycle) ?? 0;
      move(target);
    },
    /** @param {number} cyclesASecond */
    setRate(cyclesASecond) {
      now.rate = cyclesASecond;
      show();
    },
    /** Whether playing halts at each chapter. @param {boolean} stops */
    setStops(stops) {
      now.stops = stops;
      show();
    },
    /** Off screen the playhead stands still and asks for no frame. @param {boolean} seen */
    setVisible(seen) {
      visible = seen;
      if (seen) ask();
      else halt();
    },
    /** @param {(moment: Moment) => void} listener */
    onShow: (listener) => void shows.push(listener),
    /** @param {(cycle: number) => void} listener */
    onRest: (listener) => void rests.push(listener),
  };
}
