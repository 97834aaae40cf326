// "did you mean …": the names nearest to one that nothing has.

/** How many single-character edits lead from `a` to `b`; gives up beyond `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    let least = row;
    for (let column = 1; column <= b.length; column++) {
      const change = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const value = Math.min(change, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1);
      current.push(value);
      least = Math.min(least, value);
    }
    if (least > limit) return limit + 1;
    previous = current;
  }
  return previous[b.length] ?? limit + 1;
}

/** At most three of `names` that `wanted` was probably meant to be, the nearest first. */
export function nearNames(wanted: string, names: Iterable<string>): string[] {
  const limit = Math.max(1, Math.floor(wanted.length / 3));
  const lower = wanted.toLowerCase();
  const found: { name: string; distance: number }[] = [];
  for (const name of new Set(names)) {
    const distance = editDistance(lower, name.toLowerCase(), limit);
    if (distance <= limit) found.push({ name, distance });
    // A part of a longer name is a guess too, if it is more than a letter or two.
    else if (wanted.length > 3 && name.length < 80 && name.toLowerCase().includes(lower)) {
      found.push({ name, distance: limit + name.length });
    }
  }
  found.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return found.slice(0, 3).map(({ name }) => name);
}

/** The hint for an unknown name: what it may have been meant to be, or else `otherwise`. */
export function didYouMean(wanted: string, names: Iterable<string>, otherwise: string): string {
  const near = nearNames(wanted, names);
  return near.length === 0 ? otherwise : `did you mean ${near.map((name) => `'${name}'`).join(' or ')}?`;
}
