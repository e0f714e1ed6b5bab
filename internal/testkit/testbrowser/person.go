package testbrowser

import (
	"encoding/json"
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

// Key presses a key: a character, or a name such as Enter, Escape or Tab.
func (b *Browser) Key(key string) {
	b.tb.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9}
	down := object{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
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
