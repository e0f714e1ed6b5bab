import { useEffect, useState } from 'react';
import { Link } from './route.jsx';
import { useTitle } from './load.js';

const files = 'https://files.cdn-scripts.example';

// Archive takes its data and a module from another host.
export default function Archive() {
  const [years, setYears] = useState([]);
  useTitle('Archive of the notices');
  useEffect(() => {
    Promise.all([
      fetch(`${files}/archive.json`).then((r) => r.json()),
      import(/* @vite-ignore */ `${files}/years.js`),
    ]).then(([list, { byYear }]) => setYears(byYear(list)));
  }, []);
  return (
    <main>
      <h1>Archive of the notices</h1>
      {years.map(([year, list]) => (
        <section key={year}>
          <h2>{year}</h2>
          <ul>{list.map((n) => <li key={n.id}><Link to={`/notice/${n.id}`}>{n.title}</Link></li>)}</ul>
        </section>
      ))}
    </main>
  );
}
