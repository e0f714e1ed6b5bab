import { useEffect, useState } from 'react';

// useData fetches JSON once for each URL. The result is undefined until the answer is there.
export function useData(url) {
  const [data, set] = useState();
  useEffect(() => {
    const stop = new AbortController();
    fetch(url, { signal: stop.signal }).then((r) => r.json()).then(set, () => {});
    return () => stop.abort();
  }, [url]);
  return data;
}

export function useTitle(title) {
  useEffect(() => { if (title) document.title = title; }, [title]);
}
