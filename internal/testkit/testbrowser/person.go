package testbrowser

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Size makes the tab as large as a screen of so many pixels, and touch a phone's.
func (b *Browser) Size(width, height int64, phone bool) {
	b.tb.Helper()
	var options []chromedp.EmulateViewportOption
	if phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(b.tab, chromedp.EmulateViewport(width, height, options...))
}

// Dark says whether the user prefers dark pages.
func (b *Browser) Dark(dark bool) {
	b.tb.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	b.do(b.tab, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}}))
}

// Click clicks an element of the tab when it is there.
func (b *Browser) Click(selector string) {
	b.tb.Helper()
	// One expression finds and clicks, because the page may replace the element at any time.
	b.Wait(fmt.Sprintf(`(e => { if (!e || e.disabled) return false; e.scrollIntoView({block: 'center'}); e.focus();
		e.click(); return true; })(document.querySelector(%q))`, selector))
}

// middle is a function that returns where the middle of an element is, and null if there is none.
const middle = `((e, scroll) => { if (!e || document.readyState !== 'complete') return null;
	if (scroll) e.scrollIntoView({block: 'center'});
	const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })`

// ClickFrame clicks an element of the frame of another site whose URL contains part, when it is there.
func (b *Browser) ClickFrame(part, selector string) {
	b.tb.Helper()
	var at [2]float64
	tab := b.await(part, fmt.Sprintf(middle+"(document.querySelector(%q), true)", selector), &at)
	b.do(tab, chromedp.MouseClickXY(at[0], at[1]))
}

// Drag presses the mouse on an element, and releases it on another one that is visible at the same time.
func (b *Browser) Drag(from, to string) {
	b.tb.Helper()
	var at [2][2]float64
	b.await("", fmt.Sprintf(`(a => a.includes(null) ? null : a)([%[1]s(document.querySelector(%[2]q), true),
		%[1]s(document.querySelector(%[3]q), false)])`, middle, from, to), &at)
	b.do(b.tab, chromedp.DragAndDropXY(at[0][0], at[0][1], at[1][0], at[1][1]))
}

// Tap taps an element with a finger.
func (b *Browser) Tap(selector string) {
	b.tb.Helper()
	var at [2]float64
	b.await("", fmt.Sprintf(middle+"(document.querySelector(%q), true)", selector), &at)
	b.do(b.tab, chromedp.TapXY(at[0], at[1]))
}

var keys = map[string]string{"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "ArrowLeft": kb.ArrowLeft,
	"ArrowUp": kb.ArrowUp, "ArrowRight": kb.ArrowRight, "ArrowDown": kb.ArrowDown}

// Key presses a key: a character, or a name such as Enter, Escape, Tab or ArrowLeft, after "Shift+" with Shift.
func (b *Browser) Key(key string) {
	b.tb.Helper()
	key, shift := strings.CutPrefix(key, "Shift+")
	if name, ok := keys[key]; ok {
		key = name
	}
	b.press(key, shift)
}

// Type presses the keys of a text.
func (b *Browser) Type(text string) {
	b.tb.Helper()
	b.press(text, false)
}

// press presses the keys of characters.
func (b *Browser) press(text string, shift bool) {
	b.tb.Helper()
	for _, r := range text {
		events := kb.Encode(r)
		if len(events) == 3 {
			// The key and its character are one event, as in a browser. chromedp.KeyEvent sends two, and the page
			// cannot prevent the second: a character that is a shortcut would also be typed.
			events[0].Text = events[1].Text
			events = []*input.DispatchKeyEventParams{events[0], events[2]}
		}
		for _, e := range events {
			if shift {
				e.Modifiers |= int64(chromedp.ModifierShift)
			}
			b.do(b.tab, call(input.DispatchKeyEvent, *e))
		}
	}
}
