onmessage = async (e) => {
  const index = await (await fetch('/api/index.json')).json();
  postMessage(index.filter((w) => w.words.includes(e.data)));
};
