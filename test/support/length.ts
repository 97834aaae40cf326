// Torture tests have a short form for every test run and a long one for `npm run torture`.

export const isLong = process.env.FASTPROBE_TORTURE === 'long';

/** How often to do something. */
export function rounds(counts: { short: number; long: number }): number {
  return isLong ? counts.long : counts.short;
}
