import { Link } from './route.jsx';
import { useData, useTitle } from './load.js';

// Members shows notices that the server sends only with a cookie. This script sets it.
export default function Members() {
  document.cookie = 'member=yes; path=/; SameSite=Lax';
  const list = useData('/api/members.json');
  useTitle('For members');
  return (
    <main>
      <h1>For members</h1>
      <ul>{list?.items?.map((n) => <li key={n.id}><Link to={`/notice/${n.id}`}>{n.title}</Link></li>)}</ul>
    </main>
  );
}
