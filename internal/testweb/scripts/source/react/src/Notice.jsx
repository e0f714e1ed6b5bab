import { Link } from './route.jsx';
import { useData, useTitle } from './load.js';

export default function Notice({ id }) {
  const notice = useData(`/api/notice/${id}.json`);
  useTitle(notice?.title);
  if (!notice) return <p>...</p>;
  return (
    <main>
      <h1>{notice.title}</h1>
      <p>{notice.text}</p>
      {notice.see.length > 0 && <h2>See also</h2>}
      <ul>{notice.see.map((to) => <li key={to}><Link to={`/notice/${to}`}>{to}</Link></li>)}</ul>
    </main>
  );
}
