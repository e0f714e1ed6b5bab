package node_test

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
)

// refusedLate: a call is refused after its session has ended. The console neither empties the token that the user
// types, nor ends the next session.
func refusedLate(t *testing.T, b *testbrowser.Browser) {
	hold := func() {
		b.Run(`window.real ||= window.fetch;
			window.fetch = (url, how) => String(url).includes('/Status') && !window.late ?
				new Promise((answer) => { window.late = () => answer(new Response('no', { status: 401 })); }) :
				real(url, how);
			document.dispatchEvent(new Event('visibilitychange'));`)
		b.Wait("window.late")
	}
	// After the answer, the console has handled it when a task has run.
	answer := func() {
		b.Run("late(); window.late = null; window.done = false; setTimeout(() => { window.done = true; }, 100)")
		b.Wait("window.done")
	}
	logout(b)
	login(b, "secret")
	b.Wait("!document.getElementById('account').hidden")
	hold()
	logout(b)
	b.Wait("document.activeElement.id == 'token'")
	b.Type("sec")
	answer()
	if got := b.Text("document.getElementById('token').value"); got != "sec" {
		t.Errorf("after a late refusal the form has %q, want what was typed", got)
	}
	b.Type("ret")
	b.Key("Enter")
	b.Wait("!document.getElementById('account').hidden")
	hold()
	logout(b)
	login(b, "secret")
	b.Wait("!document.getElementById('account').hidden")
	answer()
	if got := b.Text("String(document.getElementById('account').hidden)"); got != "false" {
		t.Error("a refusal of the session before has ended this one")
	}
	b.Run("window.fetch = real")
	logout(b)
}
