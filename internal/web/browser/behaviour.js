// What the crawler does in a page, beside waiting. It runs in a world of its own: the page's scripts can neither see nor
// change it. Each function does a bounded amount of work.
(() => {
	"use strict";
	const maxNodes = 200000; // elements that are looked at for shadow roots and buttons
	const maxClicks = 10;    // of one button
	const more = new RegExp("^\\W*(show|load|view|see|read|display)?\\s*(\\d+\\s+)?(more|all|next)(\\s+(\\d+\\s+)?\\p{L}+)?\\W*$|" +
		"^\\W*(mehr|weitere|plus|voir plus|más|ver más|mostra altro|meer|mais)\\b.{0,20}$", "iu");
	const clicked = new WeakMap();
	let height = 0, still = 0;

	// roots returns the document and all open shadow roots in it.
	function roots() {
		const found = [document];
		let left = maxNodes;
		for (let i = 0; i < found.length && left > 0; i++) {
			const walk = document.createTreeWalker(found[i], NodeFilter.SHOW_ELEMENT);
			for (let e = walk.nextNode(); e && left > 0; e = walk.nextNode(), left--)
				if (e.shadowRoot) found.push(e.shadowRoot);
		}
		return found;
	}

	function visible(e) {
		const r = e.getBoundingClientRect();
		return r.width > 0 && r.height > 0 && getComputedStyle(e).visibility !== "hidden";
	}

	// open opens what is folded, and returns whether anything was.
	function open(all) {
		let did = false;
		for (const root of all)
			for (const d of root.querySelectorAll("details:not([open])"))
				if (!clicked.has(d)) {
					clicked.set(d, 1);
					d.open = did = true;
				}
		return did;
	}

	// click presses the first button that promises more and does not leave the page.
	function click(all) {
		for (const root of all)
			for (const b of root.querySelectorAll("button, [role=button], a[href^='#'], a:not([href]), summary, " +
					"[aria-expanded=false]")) {
				const n = clicked.get(b) || 0;
				if (n >= maxClicks || b.disabled || b.type === "submit" && b.form || !visible(b))
					continue;
				const text = (b.innerText || b.getAttribute("aria-label") || "").trim();
				if (text.length > 40 || !more.test(text))
					continue;
				clicked.set(b, n + 1);
				b.click();
				return true;
			}
		return false;
	}

	// scroll goes one screen down, also in the largest element that scrolls by itself. It returns false at the end.
	function scroll() {
		const page = document.scrollingElement || document.documentElement;
		if (!page) return false;
		const before = page.scrollTop;
		window.scrollBy(0, window.innerHeight);
		const end = page.scrollTop + window.innerHeight >= page.scrollHeight - 2;
		still = page.scrollHeight > height ? 0 : still + 1;
		height = Math.max(height, page.scrollHeight);
		return page.scrollTop > before || !end || still === 0;
	}

	globalThis.orbweaver = {
		// step does the next thing and returns its name, or "" when there is nothing left to do.
		step() {
			const all = roots();
			if (open(all)) return "open";
			if (scroll()) return "scroll";
			if (click(all)) return "click";
			return "";
		},
		// read returns the document as it is now, cut after so many characters.
		read(maxHTML, maxText) {
			let html = "<!DOCTYPE html>" + (document.documentElement ? document.documentElement.outerHTML : "");
			for (const root of roots().slice(1)) {
				if (html.length > maxHTML) break;
				html += root.innerHTML;
			}
			const text = document.body ? document.body.innerText : "";
			return {html: html.slice(0, maxHTML), text: text.slice(0, maxText), title: document.title.slice(0, 10000),
				cut: html.length > maxHTML || text.length > maxText};
		},
	};
})();
