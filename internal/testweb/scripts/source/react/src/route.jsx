import { useEffect, useState } from 'react';

// usePath returns the path of the page, which the history changes.
export function usePath() {
  const [path, set] = useState(location.pathname);
  useEffect(() => {
    const changed = () => set(location.pathname);
    addEventListener('popstate', changed);
    return () => removeEventListener('popstate', changed);
  }, []);
  return path;
}

// Link is a link that changes the page without a request for a document.
export function Link({ to, children }) {
  const follow = (e) => {
    e.preventDefault();
    history.pushState(null, '', to);
    dispatchEvent(new PopStateEvent('popstate'));
  };
  return <a href={to} onClick={follow}>{children}</a>;
}
