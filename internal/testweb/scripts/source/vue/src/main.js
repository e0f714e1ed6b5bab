import { createApp } from 'vue';
import { createRouter, createWebHistory } from 'vue-router';
import App from './App.vue';
import Rooms from './Rooms.vue';
import Room from './Room.vue';
import './label.js';

const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: '/', component: Rooms },
    { path: '/room/:id', component: Room, props: true },
    { path: '/work/:id', component: () => import('./Work.vue'), props: true },
    { path: '/person/:id', component: () => import('./Person.vue'), props: true },
    { path: '/search', component: () => import('./Search.vue') },
  ],
});

// A count of visits, which no page needs.
router.afterEach((to) => {
  fetch('/api/visits', { method: 'POST', body: to.path }).catch(() => {});
});

createApp(App).use(router).mount('#app');
