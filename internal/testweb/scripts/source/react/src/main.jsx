import { lazy, StrictMode, Suspense } from 'react';
import { createRoot } from 'react-dom/client';
import Board from './Board.jsx';
import Members from './Members.jsx';
import Notice from './Notice.jsx';
import { usePath } from './route.jsx';
import './style.css';

// The archive's code is a file of its own, which is loaded when the page is opened.
const Archive = lazy(() => import('./Archive.jsx'));

function Page() {
  const path = usePath();
  if (path === '/') return <Board />;
  if (path === '/archive') return <Archive />;
  if (path === '/members') return <Members />;
  return <Notice key={path} id={path.split('/')[2]} />;
}

createRoot(document.getElementById('root')).render(
  <StrictMode>
    <Suspense fallback={<p>...</p>}>
      <Page />
    </Suspense>
  </StrictMode>,
);
