// byYear groups notices by year, the newest first.
export function byYear(list) {
  const years = new Map();
  for (const n of list) {
    if (!years.has(n.year)) years.set(n.year, []);
    years.get(n.year).push(n);
  }
  return [...years].sort((a, b) => b[0] - a[0]);
}
