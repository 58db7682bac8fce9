/** The longest time that a timer of Node takes; a longer one would end at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** Do something later; for a time beyond all timers (24 days, or Infinity) never. */
export function later(ms: number, act: () => void): NodeJS.Timeout | undefined {
  return ms > LONGEST_MS ? undefined : setTimeout(act, ms);
}
