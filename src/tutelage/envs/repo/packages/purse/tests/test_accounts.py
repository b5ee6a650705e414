import pytest

from purse.accounts import Account, Overdrawn, settle, transfer


def test_new_account():
    account = Account("ada")
    assert (account.balance, account.limit, account.entries) == (0, 0, [])


def test_deposit():
    account = Account("ada", 100)
    assert account.deposit(50, "gift") == 150
    assert account.entries == [(50, "gift")]


def test_deposit_of_one_cent():
    assert Account("ada").deposit(1) == 1


def test_deposit_refuses_nothing():
    with pytest.raises(ValueError):
        Account("ada").deposit(0)


def test_withdraw():
    account = Account("ada", 100)
    assert account.withdraw(30, "bread") == 70
    assert account.entries == [(-30, "bread")]


def test_withdraw_all():
    assert Account("ada", 100).withdraw(100) == 0
    assert Account("ada", 1).withdraw(1) == 0


def test_withdraw_to_the_limit():
    assert Account("ada", 100, limit=50).withdraw(150) == -50


def test_withdraw_too_much():
    account = Account("ada", 100, limit=50)
    with pytest.raises(Overdrawn):
        account.withdraw(151)
    assert account.balance == 100


def test_withdraw_refuses_nothing():
    with pytest.raises(ValueError):
        Account("ada", 5).withdraw(0)


def test_spent():
    account = Account("ada", 100)
    account.withdraw(30)
    account.deposit(7)
    account.withdraw(20)
    assert account.spent() == 50


def test_largest():
    account = Account("ada", 100)
    assert account.largest() is None
    account.deposit(20, "first")
    account.withdraw(20, "second")
    account.withdraw(30, "third")
    account.deposit(5, "fourth")
    assert account.largest() == (-30, "third")


def test_largest_is_the_first_of_equals():
    account = Account("ada", 100)
    account.deposit(20, "first")
    account.withdraw(20, "second")
    assert account.largest() == (20, "first")


def test_transfer():
    ada, bob = Account("ada", 100), Account("bob")
    assert transfer(ada, bob, 60, fee=5) == 35
    assert bob.balance == 60
    assert ada.entries == [(-65, "to bob")]
    assert bob.entries == [(60, "from ada")]


def test_transfer_is_free():
    ada, bob = Account("ada", 100), Account("bob")
    assert transfer(ada, bob, 100) == 0


def test_transfer_of_too_much_moves_nothing():
    ada, bob = Account("ada", 10), Account("bob")
    with pytest.raises(Overdrawn):
        transfer(ada, bob, 11)
    assert (ada.balance, bob.balance) == (10, 0)


def test_transfer_to_oneself():
    ada = Account("ada", 10)
    with pytest.raises(ValueError):
        transfer(ada, ada, 1)


def test_settle():
    assert settle({"ada": -50, "bob": 30, "cy": 20}) == [("ada", "bob", 30), ("ada", "cy", 20)]


def test_settle_many():
    assert settle({"a": -70, "b": -10, "c": 60, "d": 20}) == [("a", "c", 60), ("b", "d", 10), ("a", "d", 10)]


def test_settle_the_settled():
    assert settle({"a": 0}) == []


def test_settle_refuses():
    with pytest.raises(ValueError):
        settle({"a": 1})
