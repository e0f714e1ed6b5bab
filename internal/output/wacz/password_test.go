package wacz

import "testing"

func TestWithoutPassword(t *testing.T) {
	for in, want := range map[string]string{
		"site.wacz": "site.wacz", "a@b.wacz": "a@b.wacz", "http://h/x.wacz": "http://h/x.wacz",
		"https://me:secret@h/x.wacz":  "https://me:xxxxx@h/x.wacz",
		"https://me:sec\x7fret@h/%zz": "the URL",
	} {
		if got := WithoutPassword(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
