from gnnak.loading.epochs import EpochPrefetcher


class Work:
    """Notes what becomes of it."""

    def __init__(self, epoch, told):
        self.epoch, self.told = epoch, told
        told.append(f"begin {epoch}")

    def close(self):
        self.told.append(f"close {self.epoch}")


def test_begun_hands_over_what_was_begun_ahead_of_an_epoch():
    told = []
    begun = EpochPrefetcher(lambda epoch: Work(epoch, told))
    assert begun.take(0).epoch == 0
    begun.ahead_of(1)
    assert told == ["begin 0", "begin 1"]
    assert begun.take(1).epoch == 1
    begun.close()
    assert told == ["begin 0", "begin 1"]


def test_begun_gives_up_what_was_begun_for_another_epoch():
    told = []
    begun = EpochPrefetcher(lambda epoch: Work(epoch, told))
    begun.ahead_of(1)
    assert begun.take(5).epoch == 5
    assert told == ["begin 1", "close 1", "begin 5"]
    assert begun.take(5).epoch == 5
    begun.ahead_of(6)
    begun.ahead_of(7)
    begun.close()
    begun.close()
    assert told[3:] == ["begin 5", "begin 6", "close 6", "begin 7", "close 7"]
