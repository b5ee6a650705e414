"""Accounts and transfers."""


class Overdrawn(Exception):
    """An account would fall below its limit."""


class Account:
    """Holds cents. `limit` is how far it may fall below zero."""

    def __init__(self, owner, balance=0, limit=0):
        self.owner = owner
        self.balance = balance
        self.limit = limit
        self.entries = []

    def deposit(self, cents, note=""):
        if cents <= 0:
            raise ValueError("a deposit is more than 0")
        self.balance += cents
        self.entries.append((cents, note))
        return self.balance

    def withdraw(self, cents, note=""):
        if cents <= 0:
            raise ValueError("a withdrawal is more than 0")
        if self.balance - cents < -self.limit:
            raise Overdrawn(self.owner)
        self.balance -= cents
        self.entries.append((-cents, note))
        return self.balance

    def spent(self):
        """Sum of all withdrawals."""
        return -sum(cents for cents, _ in self.entries if cents < 0)

    def largest(self):
        """The entry with the largest amount in either direction, or None."""
        best = None
        for entry in self.entries:
            if best is None or abs(entry[0]) > abs(best[0]):
                best = entry
        return best


def transfer(source, target, cents, fee=0):
    """Move cents between accounts; the source pays the fee. Nothing moves if it cannot."""
    if source is target:
        raise ValueError("source and target are the same")
    source.withdraw(cents + fee, "to " + target.owner)
    target.deposit(cents, "from " + source.owner)
    return source.balance


def settle(balances):
    """Payments (from, to, cents) that bring all balances to zero, largest debts first."""
    if sum(balances.values()) != 0:
        raise ValueError("balances must have the sum 0")
    debts = sorted((-cents, name) for name, cents in balances.items() if cents < 0)
    credits = sorted((cents, name) for name, cents in balances.items() if cents > 0)
    payments = []
    while debts:
        owed, debtor = debts.pop()
        due, creditor = credits.pop()
        paid = min(owed, due)
        payments.append((debtor, creditor, paid))
        if owed > paid:
            debts.append((owed - paid, debtor))
            debts.sort()
        if due > paid:
            credits.append((due - paid, creditor))
            credits.sort()
    return payments
