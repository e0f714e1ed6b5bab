import { useEffect, useRef, useState } from 'react';
import { Link } from './route.jsx';
import { useTitle } from './load.js';

// Board lists the notices. It fetches the next ones when its end comes into sight.
export default function Board() {
  const [notices, setNotices] = useState([]);
  const [next, setNext] = useState('/api/notices/1.json');
  const end = useRef(null);
  useTitle('Notices of the harbour');
  useEffect(() => {
    if (!next) return undefined;
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      fetch(next).then((r) => r.json()).then((page) => {
        setNotices((all) => [...all, ...page.items]);
        setNext(page.next);
      });
    });
    seen.observe(end.current);
    return () => seen.disconnect();
  }, [next]);
  return (
    <main>
      <h1>Notices of the harbour</h1>
      <img src="https://files.cdn-scripts.example/anchor.svg" alt="An anchor" width="64" height="64" />
      <nav><Link to="/archive">Archive</Link> <Link to="/members">For members</Link></nav>
      {notices.map((n) => (
        <article key={n.id}><h2><Link to={`/notice/${n.id}`}>{n.title}</Link></h2></article>
      ))}
      {next && <p ref={end}>...</p>}
    </main>
  );
}
