import { defineCustomElement, h } from 'vue';

// A museum-label has its text and its links in a shadow root.
customElements.define('museum-label', defineCustomElement({
  props: { text: String, next: String },
  styles: ['p { border-left: 4px solid #a52; padding-left: 1em }'],
  setup: (props) => () => [
    h('p', props.text),
    props.next ? h('a', { href: `/work/${props.next}` }, 'The next work') : null,
  ],
}));
