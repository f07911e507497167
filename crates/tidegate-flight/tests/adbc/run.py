"""The ADBC Flight SQL driver for Python against a running `tidegate serve`.

Usage: run.py PATH_OF_TIDEGATE

Needs the packages adbc-driver-flightsql, adbc-driver-manager and pyarrow. The driver knows nothing of
Tidegate: what works here works for its users in Python, R, C and Go. Each test has a server of its own
and prints one line; the exit status is 1 if any failed.
"""

import base64
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

import adbc_driver_manager
import pyarrow
from adbc_driver_flightsql import DatabaseOptions, dbapi
from adbc_driver_manager import AdbcStatusCode

TIDEGATE = sys.argv[1]
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3"


class Server:
    """A server on a free port, until the block ends."""

    def __init__(self, *options):
        words = [TIDEGATE, "serve", "--listen", "127.0.0.1:0", "--drain", "2s", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"no address in {line!r}: {self.process.stderr.read()}")
        self.url = line.removeprefix("listening on ").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0
        errors = self.process.stderr.read()
        assert "panic" not in errors and "internal error" not in errors, errors

    def connect(self, options=None):
        # There are no transactions, which the driver would begin by default.
        return contextlib.closing(dbapi.connect(self.url, db_kwargs=options or {}, autocommit=True))


@contextlib.contextmanager
def cursor(server, options=None):
    with server.connect(options) as connection, connection.cursor() as found:
        yield found


def rows(found, sql, parameters=None):
    found.execute(sql, parameters)
    return found.fetchall()


def fails(action, words, code=None):
    try:
        action()
    except adbc_driver_manager.Error as error:
        assert re.search(words, str(error)), f"no {words!r} in: {error}"
        assert code in (None, error.status_code), f"{error.status_code!r} and not {code!r}: {error}"
        return error
    raise AssertionError("no error")


def queries():
    with Server() as server, cursor(server) as found:
        assert rows(found, "SELECT 1 AS a, 'x' AS b, CAST(NULL AS DOUBLE) AS c") == [(1, "x", None)]
        assert [column[0] for column in found.description] == ["a", "b", "c"]
        found.execute("SELECT value FROM generate_series(1, 1000000)")
        table = found.fetch_arrow_table()
        assert table.num_rows == 1_000_000
        assert table.column(0)[999_999].as_py() == 1_000_000
        found.execute("SELECT l_shipmode, count(*) AS n FROM tpch('lineitem', 0.01) GROUP BY 1 ORDER BY 1")
        table = found.fetch_arrow_table()
        assert table.num_rows == 7 and pyarrow.types.is_string(table.schema.field(0).type)
        schema = found.adbc_execute_schema("SELECT 1 AS a, 'x' AS b")
        assert schema.names == ["a", "b"]
        assert rows(found, "SELECT 1 WHERE false") == []


def definitions_and_updates():
    with Server() as server, cursor(server) as found:
        found.execute("CREATE TABLE t(a BIGINT, b TEXT)")
        found.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        assert rows(found, "SELECT * FROM t ORDER BY a") == [(1, "x"), (2, "y")]
        found.executemany("INSERT INTO t VALUES (?, ?)", [(3, "z"), (4, None)])
        assert found.rowcount == 2, found.rowcount
        assert rows(found, "SELECT count(*), count(b) FROM t") == [(4, 3)]
        found.execute("SET tidegate.float_sums = 'ordered'")
        found.execute("DROP TABLE t")
        fails(lambda: rows(found, "SELECT * FROM t"), "'t' not found", AdbcStatusCode.NOT_FOUND)
        # What does not change rows does not count them.
        for sql, expect in [
            ("CREATE TABLE t(a BIGINT)", -1),
            ("INSERT INTO t VALUES (1), (2)", 2),
            ("DELETE FROM t WHERE a = 9", 0),
            ("DROP TABLE t", -1),
        ]:
            found.adbc_statement.set_sql_query(sql)
            assert found.adbc_statement.execute_update() == expect, sql


def types():
    names = "a VARCHAR, b VARBINARY(8), c BLOB, d TIME(3), e TIMESTAMP(0), f TIMESTAMP(5), g DOUBLE, h DECIMAL(9, 2)"
    with Server() as server, server.connect() as connection, connection.cursor() as found:
        found.execute(f"CREATE TABLE t({names})")
        found.execute("INSERT INTO t (a, b, e) VALUES ('x', X'00ff', TIMESTAMP '0001-01-01 00:00:00')")
        # A table has the types of its rows, told before and fetched.
        told = connection.adbc_get_table_schema("t")
        found.execute("SELECT * FROM t")
        fetched = found.fetch_arrow_table()
        assert told.types == fetched.schema.types, (told, fetched.schema)
        assert told.types == found.adbc_execute_schema("SELECT * FROM t").types
        assert pyarrow.types.is_string(told.types[0]) and pyarrow.types.is_binary(told.types[1])
        assert fetched.column(1)[0].as_py() == b"\x00\xff"
        assert fetched.column(4)[0].as_py().year == 1
        found.adbc_ingest("u", fetched, mode="create")
        assert connection.adbc_get_table_schema("u").types == told.types
        zoned = pyarrow.table({"z": pyarrow.array([0], pyarrow.timestamp("ns", "UTC"))})
        found.adbc_ingest("z", zoned, mode="create")
        assert connection.adbc_get_table_schema("z").types == zoned.schema.types


def parameters():
    with Server() as server, cursor(server) as found:
        sql = "SELECT value FROM generate_series(1, 100) WHERE value > ? AND value < ? ORDER BY value"
        for low, high in [(3, 6), (97, 200)]:
            expect = [(value,) for value in range(low + 1, min(high, 101))]
            assert rows(found, sql, (low, high)) == expect
        assert rows(found, "SELECT CAST($2 AS TEXT) || CAST($1 AS TEXT)", ("a", "b")) == [("ba",)]
        assert rows(found, "SELECT CAST(? AS BIGINT) IS NULL", (None,)) == [(True,)]
        fails(lambda: rows(found, sql, (1,)), "2 parameters")
        table = found.adbc_prepare(sql)
        assert [field.type for field in table] == [pyarrow.int64(), pyarrow.int64()]


def ingest():
    number = 1_000_000
    table = pyarrow.table(
        {
            "id": pyarrow.array(range(number), pyarrow.int64()),
            "word": pyarrow.array([f"w{index % 1000}" for index in range(number)]),
            "part": pyarrow.array([None if index % 10 == 0 else index / 2 for index in range(number)]),
        }
    )
    with Server() as server, cursor(server) as found:
        start = time.monotonic()
        # The driver itself refuses to send batches above 16 MB.
        batches = table.to_reader(max_chunksize=100_000)
        assert found.adbc_ingest("big", batches, mode="create") == number
        print(f"    1,000,000 rows ingested in {time.monotonic() - start:.2f} s")
        count = "SELECT count(*), count(DISTINCT word), count(part), sum(id) FROM big"
        assert rows(found, count) == [(number, 1000, 900_000, number * (number - 1) // 2)]
        few = table.slice(0, 10)
        exists, missing = AdbcStatusCode.ALREADY_EXISTS, AdbcStatusCode.NOT_FOUND
        fails(lambda: found.adbc_ingest("big", few, mode="create"), "already exists", exists)
        fails(lambda: found.adbc_ingest("nowhere", few, mode="append"), "does not exist", missing)
        assert found.adbc_ingest("big", table.slice(0, 10), mode="append") == 10
        assert rows(found, "SELECT count(*) FROM big") == [(number + 10,)]
        found.adbc_ingest("big", table.slice(0, 5), mode="replace")
        found.adbc_ingest("big", table.slice(5, 5), mode="create_append")
        assert rows(found, "SELECT min(id), max(id), count(*) FROM big") == [(0, 9, 10)]
        found.adbc_ingest("mine", table.slice(0, 2), mode="create", temporary=True)
        assert rows(found, "SELECT count(*) FROM temp.mine") == [(2,)]


def metadata():
    with Server() as server, server.connect() as connection, connection.cursor() as found:
        found.execute("CREATE TABLE t(a BIGINT NOT NULL, b TEXT)")
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "Tidegate", info
        assert sorted(connection.adbc_get_table_types()) == ["LOCAL TEMPORARY", "SYSTEM TABLE", "TABLE", "VIEW"]
        assert connection.adbc_get_table_schema("t").names == ["a", "b"]
        objects = connection.adbc_get_objects(depth="all", table_name_filter="t").read_all().to_pylist()
        schemas = {schema["db_schema_name"]: schema for schema in objects[0]["catalog_db_schemas"]}
        assert objects[0]["catalog_name"] == "datafusion" and "system" in schemas
        table = schemas["public"]["db_schema_tables"][0]
        assert (table["table_name"], table["table_type"]) == ("t", "TABLE")
        assert [column["column_name"] for column in table["table_columns"]] == ["a", "b"]
        assert connection.adbc_current_catalog == "datafusion"
        assert connection.adbc_current_db_schema == "public"
        found.execute("CREATE SCHEMA other")
        connection.adbc_current_db_schema = "other"
        assert connection.adbc_current_db_schema == "other"


def cancelling():
    with Server() as server, cursor(server) as found, cursor(server) as other:
        timer = threading.Timer(0.7, found.adbc_cancel)
        timer.start()
        start = time.monotonic()
        fails(lambda: rows(found, ENDLESS), "(?i)cancel")
        assert time.monotonic() - start < 20
        timer.join()
        running = "SELECT count(*) FROM system.queries WHERE state = 'running' AND sql LIKE '%1000000000000%'"
        own = " AND sql NOT LIKE '%system%'"
        for _ in range(100):
            if rows(other, running + own) == [(0,)]:
                break
            time.sleep(0.1)
        assert rows(other, running + own) == [(0,)]
        assert rows(found, "SELECT 1") == [(1,)]


def errors():
    with Server("--statement-timeout", "1s") as server, cursor(server) as found:
        fails(lambda: rows(found, "SELEC 1"), "syntax error")
        fails(lambda: rows(found, "SELECT 1 / 0"), "(?i)divi(de|sion) by zero")
        fails(lambda: rows(found, "COPY (SELECT 1) TO '/etc/x.csv'"), "outside the paths")
        fails(lambda: rows(found, "SET tidegate.memory_limit = '1TB'"), "locked")
        fails(lambda: rows(found, ENDLESS), "statement-timeout", AdbcStatusCode.TIMEOUT)
        found.execute("CREATE TABLE t(a INT)")
        again = "CREATE TABLE t(a INT)"
        fails(lambda: rows(found, again), "already exists", AdbcStatusCode.ALREADY_EXISTS)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            dbapi.connect(server.url, autocommit=False).close()
        assert "Cannot disable autocommit" in str(warned[0].message)
        assert rows(found, "SELECT 1") == [(1,)]


def users(folder):
    made = subprocess.run(
        [TIDEGATE, "serve", "hash-password"], input="secret\n", capture_output=True, text=True, check=True
    )
    file = folder / "users.toml"
    file.write_text(f'[[users]]\nname = "ada"\npassword = "{made.stdout.strip()}"\n')
    return file


def login():
    with tempfile.TemporaryDirectory() as folder:
        file = users(pathlib.Path(folder))
        with Server("--users", str(file)) as server:
            with cursor(server, {"username": "ada", "password": "secret"}) as found:
                assert rows(found, "SELECT 1") == [(1,)]
            wrong = {"username": "ada", "password": "wrong"}
            fails(lambda: dbapi.connect(server.url, db_kwargs=wrong).cursor(), "(?i)wrong")

            def nobody():
                with cursor(server) as found:
                    rows(found, "SELECT 1")

            fails(nobody, "(?i)log in")

            # The name and password with each call: the connection is the session.
            def header(password):
                encoded = base64.b64encode(f"ada:{password}".encode()).decode()
                return {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Basic {encoded}"}

            with cursor(server, header("secret")) as found:
                found.execute("SET tidegate.float_sums = 'ordered'")
                level = "SELECT value FROM system.settings WHERE name = 'tidegate.float_sums'"
                assert rows(found, level) == [("ordered",)]

            def wrong_header():
                with cursor(server, header("wrong")) as found:
                    rows(found, "SELECT 1")

            fails(wrong_header, "(?i)wrong", AdbcStatusCode.UNAUTHENTICATED)


def tls():
    if shutil.which("openssl") is None:
        without = "no openssl here to make a certificate with"
        if "adbc" in os.environ.get("TIDEGATE_REQUIRE", "").split(","):
            raise RuntimeError(without)
        print("    SKIPPED: " + without)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        certificate, key = folder / "cert.pem", folder / "key.pem"
        words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        words += " -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
        words += f" -keyout {key} -out {certificate}"
        subprocess.run(words.split(), check=True, capture_output=True)
        options = ["--tls-cert", certificate, "--tls-key", key, "--users", users(folder)]
        with Server(*map(str, options)) as server:
            assert server.url.startswith("grpc+tls://")
            ada = {"username": "ada", "password": "secret"}
            trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text()}
            with cursor(server, {**ada, **trusted}) as found:
                assert rows(found, "SELECT 1") == [(1,)]
            fails(lambda: dbapi.connect(server.url, db_kwargs=ada).cursor(), "(?i)certificate|tls")


def files():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        (folder / "t.csv").write_text("a,b\n1,x\n")
        init = folder / "init.sql"
        init.write_text(
            f"CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{folder}/t.csv'"
            " OPTIONS ('format.has_header' 'true');\n"
            "SET tidegate.float_sums = 'ordered';\n"
        )
        with Server("--init", str(init), "--allow", str(folder)) as server, cursor(server) as found:
            assert rows(found, "SELECT * FROM t") == [(1, "x")]
            level = "SELECT value FROM system.settings WHERE name = 'tidegate.float_sums'"
            assert rows(found, level) == [("ordered",)]
            found.execute(f"COPY (SELECT 2 AS a) TO '{folder}/out.parquet'")
            assert rows(found, f"SELECT * FROM '{folder}/out.parquet'") == [(2,)]
            fails(lambda: rows(found, "SELECT * FROM '/etc/x.csv'"), "outside the paths")


def guide():
    """The Python of the guide's page about clients, on a server of its own."""
    page = pathlib.Path(__file__).parents[4] / "docs/guide/clients.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    with Server() as server:
        for block in blocks:
            code = block.replace("grpc://127.0.0.1:31337", server.url)
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            assert ran.stdout == "{'v': [0, 1, 2]}\n(42,)\n", ran.stdout


def main():
    tests = [
        queries,
        definitions_and_updates,
        types,
        parameters,
        ingest,
        metadata,
        cancelling,
        errors,
        login,
        tls,
        files,
        guide,
    ]
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {test.__name__}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(tests) - failed} of {len(tests)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
