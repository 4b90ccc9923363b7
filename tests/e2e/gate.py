"""A gate at which statements wait until the test opens it: what is to be under way at some moment is under way then, however
long a busy machine takes to come there.

A statement that has `FROM pg_advisory_xact_lock_shared(N)` waits while gate N is shut; gates that nobody made are open."""
import psycopg2

GATE = "pg_advisory_xact_lock_shared(1)"        # the first one's


class Gate:
    """`with Gate(cluster) as gate:` It is shut from the beginning, and open at the end."""

    def __init__(self, cluster, number=1):
        self.number = number
        self.connection = psycopg2.connect(host=cluster.socket_dir, dbname="app", user="postgres")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.shut()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.close()         # and PostgreSQL opens it

    def shut(self):
        self.cursor.execute("SELECT pg_advisory_lock(%s)", (self.number,))

    def open(self):
        self.cursor.execute("SELECT pg_advisory_unlock(%s)", (self.number,))

    def waiting(self):
        """How many statements wait at it."""
        self.cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted", (self.number,))
        return self.cursor.fetchone()[0]
