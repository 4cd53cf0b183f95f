package bench

// Receiver opens a receiver such as the service is measured with, for a program that
// measures another beside it.
func Receiver() (url string, count func() int, closeIt func(), err error) {
	k, err := openSink(nil, nil)
	if err != nil {
		return "", nil, nil, err
	}
	return k.url, func() int { return int(k.count.Load()) }, k.close, nil
}
