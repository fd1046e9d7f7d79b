"""A small shop in the manner of TPC-DS: tables, rows that come for them, and what maintenance does with these."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["DATES", "MORE_STATEMENTS", "SOURCES", "STATEMENTS", "TABLES", "RandomRows"]

DATES, ITEMS, CUSTOMERS, WAREHOUSES = 60, 12, 15, 2
TABLES = {
    "store_sales": (
        (
            "ss_sold_date_sk int, ss_item_sk int, ss_customer_sk int, ss_ticket_number bigint, ss_quantity int, "
            "ss_sales_price decimal(7, 2), ss_net_profit decimal(9, 2)"
        ),
        "using parquet partitioned by (truncate(10, ss_sold_date_sk))",
    ),
    "store_returns": (
        (
            "sr_returned_date_sk int, sr_item_sk int, sr_ticket_number bigint, sr_return_quantity int, "
            "sr_return_amt decimal(7, 2)"
        ),
        "using orc partitioned by (bucket(2, sr_ticket_number))",
    ),
    "inventory": (
        "inv_date_sk int, inv_item_sk int, inv_warehouse_sk int, inv_quantity_on_hand int",
        "using avro partitioned by (inv_warehouse_sk)",
    ),
    "item": (
        (
            "i_item_sk int, i_item_id string, i_rec_start_date date, i_rec_end_date date, "
            "i_current_price decimal(7, 2), i_category string"
        ),
        "using parquet",
    ),
    "customer": (
        "c_customer_sk int, c_customer_id string, c_last_name string, c_email_address string",
        "using orc",
    ),
}
SOURCES = {
    "date_dim": "d_date_sk int, d_date date",
    "s_purchase": "purc_id bigint, item_id string, customer_id string, d date, quantity int, price decimal(7, 2)",
    "s_returns": "purc_id bigint, item_id string, d date, quantity int",
    "s_inventory": "item_id string, warehouse int, d date, quantity int",
    "s_item": "item_id string, price decimal(7, 2), category string",
    "s_customer": "customer_id string, last_name string, email string",
}

# The dialect that Spark and DuckDB have in common; {t} stands for the catalog of the tables.
LOAD_SALES = """insert into {t}store_sales
    select d_date_sk, i_item_sk, c_customer_sk, purc_id, quantity, price,
    cast(quantity * (price - i_current_price) as decimal(9, 2))
    from s_purchase join date_dim on d = d_date join {t}item on item_id = i_item_id and i_rec_end_date is null
    left join {t}customer on customer_id = c_customer_id"""
LOAD_RETURNS = """insert into {t}store_returns
    select d_date_sk, ss_item_sk, ss_ticket_number, r.quantity, cast(r.quantity * ss_sales_price as decimal(7, 2))
    from s_returns r join date_dim on d = d_date join {t}item on item_id = i_item_id and i_rec_end_date is null
    join {t}store_sales on ss_ticket_number = purc_id and ss_item_sk = i_item_sk where r.quantity <= ss_quantity"""
DELETE_RETURNS = """delete from {t}store_returns where sr_ticket_number in (select ss_ticket_number
    from {t}store_sales join date_dim on ss_sold_date_sk = d_date_sk where d_date between {low} and {high})"""
DELETE_SALES = """delete from {t}store_sales
    where ss_sold_date_sk >= (select min(d_date_sk) from date_dim where d_date between {low} and {high})
    and ss_sold_date_sk <= (select max(d_date_sk) from date_dim where d_date between {low} and {high})"""
DELETE_INVENTORY = "delete from {t}inventory where inv_date_sk between {first} and {last}"
MERGE_INVENTORY = """merge into {t}inventory t using
    (select d_date_sk, i_item_sk, warehouse, max(quantity) quantity from s_inventory join date_dim on d = d_date
    join {t}item on item_id = i_item_id and i_rec_end_date is null group by d_date_sk, i_item_sk, warehouse) s
    on inv_date_sk = s.d_date_sk and inv_item_sk = s.i_item_sk and inv_warehouse_sk = s.warehouse
    when matched and s.quantity = 0 then delete
    when matched and inv_quantity_on_hand <> s.quantity then update set inv_quantity_on_hand = s.quantity
    when not matched and s.quantity > 0 then insert (inv_date_sk, inv_item_sk, inv_warehouse_sk, inv_quantity_on_hand)
    values (s.d_date_sk, s.i_item_sk, s.warehouse, s.quantity)"""
CLOSE_ITEMS = """update {t}item set i_rec_end_date = date'2000-02-01'
    where i_rec_end_date is null and i_item_id in (select item_id from s_item)"""
NEW_ITEMS = """insert into {t}item select cast(i_item_sk + 1000 * {refresh} as int), i_item_id, date'2000-02-02', null,
    s.price, s.category from (select i_item_id, max(i_item_sk) i_item_sk from {t}item where i_item_sk < 1000
    group by i_item_id) old join s_item s on i_item_id = s.item_id"""
MERGE_CUSTOMERS = """merge into {t}customer t using s_customer s on t.c_customer_id = s.customer_id
    when matched and s.last_name is null then delete
    when matched then update set c_last_name = s.last_name, c_email_address = coalesce(s.email, t.c_email_address)
    when not matched then insert (c_customer_sk, c_customer_id, c_last_name, c_email_address)
    values (null, s.customer_id, s.last_name, s.email)"""
NEW_CUSTOMERS_ONLY = """merge into {t}customer t using (select 'C99' id union all select 'C1' id) s
    on c_customer_id = s.id
    when not matched then insert (c_customer_sk, c_customer_id, c_last_name, c_email_address)
    values (99, s.id, 'Last', null)"""
DISCOUNT = """update {t}store_sales set ss_sales_price = cast(ss_sales_price / 2 as decimal(7, 2)), ss_net_profit = null
    where ss_quantity > 3 and ss_item_sk in
    (select i_item_sk from {t}item where i_category = 'Books' or i_category is null)"""
UNKNOWN_CUSTOMERS = "update {t}store_sales set ss_customer_sk = -1 where ss_customer_sk is null"
NOT_RETURNED = """delete from {t}store_sales s where ss_quantity = 1 and not exists
    (select 1 from {t}store_returns where sr_ticket_number = s.ss_ticket_number)"""
ONLY_THESE_STAY = """merge into {t}inventory t using
    (select distinct i_item_sk from {t}item where i_category = 'Music') s
    on inv_item_sk = s.i_item_sk when matched then update set inv_quantity_on_hand = inv_quantity_on_hand + 1
    when not matched by source and inv_quantity_on_hand < 3 then delete
    when not matched by source then update set inv_quantity_on_hand = 0"""

STATEMENTS = [
    ("store_sales", LOAD_SALES),
    ("store_returns", LOAD_RETURNS),
    ("store_returns", DELETE_RETURNS),
    ("store_sales", DELETE_SALES),
    ("inventory", DELETE_INVENTORY),
    ("inventory", MERGE_INVENTORY),
    ("item", CLOSE_ITEMS),
    ("item", NEW_ITEMS),
    ("customer", MERGE_CUSTOMERS),
    ("store_sales", DISCOUNT),
    ("inventory", ONLY_THESE_STAY),
]
"""The table that each changes, and its text."""
MORE_STATEMENTS = [
    ("customer", NEW_CUSTOMERS_ONLY),
    ("store_sales", UNKNOWN_CUSTOMERS),
    ("store_sales", NOT_RETURNED),
]


class RandomRows:
    """Rows as texts of SQL, by the name of their table or source."""

    def __init__(self, random: Random, refresh: int = 0) -> None:
        self._random = random
        self._first = 1000 * refresh

    def of(self, name: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = getattr(self, name)()
        return rows

    def _day(self) -> str:
        return f"date'2000-01-01' + {self._random.randrange(DATES)}"

    def _money(self) -> str:
        return f"{self._random.randrange(1000)}.{self._random.choice(['00', '25', '99'])}"

    def _category(self) -> str:
        return self._random.choice(["'Books'", "'Music'", "'Home'", "null"])

    def _item(self) -> str:
        return f"'I{self._random.randrange(ITEMS + 2)}'"

    def _number(self, start: int, stop: int) -> int:
        return self._random.randrange(start, stop)

    def date_dim(self) -> list[tuple[Any, ...]]:
        return [(100 + i, f"date'2000-01-01' + {i}") for i in range(DATES)]

    def item(self) -> list[tuple[Any, ...]]:
        start = "date'1999-01-01'"
        return [(i, f"'I{i}'", start, "null", self._money(), self._category()) for i in range(ITEMS)]

    def customer(self) -> list[tuple[Any, ...]]:
        return [(i, f"'C{i}'", f"'Name {i % 4}'", "null" if i % 3 else f"'c{i}@x'") for i in range(CUSTOMERS)]

    def store_sales(self) -> list[tuple[Any, ...]]:
        return [
            (
                self._number(100, 100 + DATES),
                self._number(0, ITEMS),
                self._random.choice([0, 1, 2, "null"]),
                ticket,
                self._number(1, 6),
                self._money(),
                self._money(),
            )
            for ticket in range(80)
        ]

    def store_returns(self) -> list[tuple[Any, ...]]:
        tickets = self._random.sample(range(80), 25)
        return [
            (self._number(100, 100 + DATES), self._number(0, ITEMS), ticket, self._number(1, 3), self._money())
            for ticket in tickets
        ]

    def inventory(self) -> list[tuple[Any, ...]]:
        places = [(100 + d, i, w) for d in range(0, DATES, 7) for i in range(ITEMS) for w in range(WAREHOUSES)]
        return [(*place, self._number(0, 6)) for place in self._random.sample(places, 90)]

    def s_purchase(self) -> list[tuple[Any, ...]]:
        return [
            (
                self._first + n,
                self._item(),
                f"'C{self._number(0, CUSTOMERS + 3)}'",
                self._day(),
                self._number(1, 6),
                self._money(),
            )
            for n in range(25)
        ]

    def s_returns(self) -> list[tuple[Any, ...]]:
        tickets = [self._first + n for n in range(25)]
        return [(n, f"'I{i}'", self._day(), self._number(1, 4)) for n in tickets for i in range(ITEMS)]

    def s_inventory(self) -> list[tuple[Any, ...]]:
        return [(self._item(), self._number(0, WAREHOUSES), self._day(), self._number(0, 4)) for _ in range(60)]

    def s_item(self) -> list[tuple[Any, ...]]:
        return [(f"'I{i}'", self._money(), self._category()) for i in self._random.sample(range(ITEMS + 2), 6)]

    def s_customer(self) -> list[tuple[Any, ...]]:
        choose = self._random.choice
        known = self._random.sample(range(CUSTOMERS + 5), 12)
        return [(f"'C{i}'", choose(["null", "'New'"]), choose(["null", "'n@x'"])) for i in known]
