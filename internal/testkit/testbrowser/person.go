package testbrowser

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Size makes the tab as large as a screen of so many pixels, and touch a phone's.
func (b *Browser) Size(width, height int, phone bool) {
	b.tb.Helper()
	b.call(b.tab, "Emulation.setDeviceMetricsOverride", object{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": phone}, nil)
}

// Dark says whether the user prefers dark pages.
func (b *Browser) Dark(dark bool) {
	b.tb.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	b.call(b.tab, "Emulation.setEmulatedMedia", object{"features": []object{
		{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// Click clicks an element of the tab when it is there.
func (b *Browser) Click(selector string) {
	b.tb.Helper()
	quoted, err := json.Marshal(selector)
	if err != nil {
		b.tb.Fatal(err)
	}
	// One expression finds and clicks, because the page may replace the element at any time.
	b.Wait(`(e => { if (!e || e.disabled) return false; e.scrollIntoView({block: 'center'}); e.focus(); e.click();
		return true; })(document.querySelector(` + string(quoted) + `))`)
}

// middle returns where the middle of an element is in the tab, when it is there. With scroll it first scrolls to it.
func (b *Browser) middle(selector string, scroll bool) (x, y float64) {
	b.tb.Helper()
	quoted, err := json.Marshal(selector)
	if err != nil {
		b.tb.Fatal(err)
	}
	value, _ := b.await("", fmt.Sprintf(`(e => { if (!e) return null; if (%t) e.scrollIntoView({block: 'center'});
		const r = e.getBoundingClientRect(); return JSON.stringify([r.x + r.width / 2, r.y + r.height / 2]); })(
		document.querySelector(%s))`, scroll, quoted))
	text, _ := value.(string)
	var at [2]float64
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		b.tb.Fatal(err)
	}
	return at[0], at[1]
}

// Drag presses the mouse on an element, and releases it on another one that is visible at the same time.
func (b *Browser) Drag(from, to string) {
	b.tb.Helper()
	x1, y1 := b.middle(from, true)
	x2, y2 := b.middle(to, false)
	for _, e := range []object{{"type": "mousePressed", "x": x1, "y": y1, "buttons": 1},
		{"type": "mouseMoved", "x": (x1 + x2) / 2, "y": (y1 + y2) / 2, "buttons": 1},
		{"type": "mouseMoved", "x": x2, "y": y2, "buttons": 1}, {"type": "mouseReleased", "x": x2, "y": y2}} {
		e["button"], e["clickCount"] = "left", 1
		b.call(b.tab, "Input.dispatchMouseEvent", e, nil)
	}
}

// Tap taps an element with a finger.
func (b *Browser) Tap(selector string) {
	b.tb.Helper()
	x, y := b.middle(selector, true)
	b.call(b.tab, "Input.dispatchTouchEvent", object{"type": "touchStart",
		"touchPoints": []object{{"x": x, "y": y}}}, nil)
	b.call(b.tab, "Input.dispatchTouchEvent", object{"type": "touchEnd", "touchPoints": []object{}}, nil)
}

// Key presses a key: a character, or a name such as Enter, Escape, Tab or ArrowLeft, after "Shift+" with Shift.
func (b *Browser) Key(key string) {
	b.tb.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
		"ArrowDown": 40}
	key, shift := strings.CutPrefix(key, "Shift+")
	down := object{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
	if shift {
		down["modifiers"] = 8
	}
	if key == "Enter" {
		down["text"] = "\r"
	} else if codes[key] == 0 {
		down["text"] = key
	}
	b.call(b.tab, "Input.dispatchKeyEvent", down, nil)
	b.call(b.tab, "Input.dispatchKeyEvent", object{"type": "keyUp", "key": key,
		"windowsVirtualKeyCode": codes[key]}, nil)
}

// Type presses the keys of a text.
func (b *Browser) Type(text string) {
	b.tb.Helper()
	for key := range strings.SplitSeq(text, "") {
		b.Key(key)
	}
}
