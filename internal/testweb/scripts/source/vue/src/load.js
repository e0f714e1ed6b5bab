import { ref, watchEffect } from 'vue';

// load returns a ref with the JSON of url, null until the answer is there. It sets the title of the page.
export function load(url) {
  const data = ref(null);
  watchEffect(() => { if (data.value?.title) document.title = data.value.title; });
  fetch(url).then((r) => r.json()).then((d) => { data.value = d; }, () => {});
  return data;
}
