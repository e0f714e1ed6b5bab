package contents

// Waiting returns how many pages other agents are still to be told of, and in how many queues they are.
func (k *Service) Waiting() (pages, queues int) {
	k.originals.mu.Lock()
	defer k.originals.mu.Unlock()
	return k.originals.waiting, len(k.originals.queues)
}
