from gnnak.loading.order import EpochPrefetcher


class Work:
    """Logs when it is started and closed."""

    def __init__(self, epoch, log):
        self.epoch, self.log = epoch, log
        log.append(f"start {epoch}")

    def close(self):
        self.log.append(f"close {self.epoch}")


def test_epoch_prefetcher_returns_the_prefetched_work():
    log = []
    prefetcher = EpochPrefetcher(lambda epoch: Work(epoch, log))
    assert prefetcher.take(0).epoch == 0
    prefetcher.prefetch(1)
    assert log == ["start 0", "start 1"]
    assert prefetcher.take(1).epoch == 1
    prefetcher.close()
    assert log == ["start 0", "start 1"]


def test_epoch_prefetcher_closes_the_work_of_another_epoch():
    log = []
    prefetcher = EpochPrefetcher(lambda epoch: Work(epoch, log))
    prefetcher.prefetch(1)
    assert prefetcher.take(5).epoch == 5
    assert log == ["start 1", "close 1", "start 5"]
    assert prefetcher.take(5).epoch == 5
    prefetcher.prefetch(6)
    prefetcher.prefetch(7)
    prefetcher.close()
    prefetcher.close()
    assert log[3:] == ["start 5", "start 6", "close 6", "start 7", "close 7"]
