namespace Whimbrel.Clusters;

/// <summary>
/// JetStream streams for recoverable groups: one per group, in the server's memory. The stream's sequence is the
/// offset, its creation time the epoch. On the bus's loop.
/// </summary>
internal sealed class NatsHistory(NatsBus bus, NatsRequests requests)
{
    private const int MostPageBytes = 256 * 1024;
    private const int MostTries = 8;

    private readonly Dictionary<string, HistoryLimits> _made = new(StringComparer.Ordinal); // already checked
    private readonly HashSet<string> _told = new(StringComparer.Ordinal);

    internal bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes,
        Action<bool> done)
    {
        if (IsMade(subject, limits)) return Publish(subject, envelopes, done);
        ReadOnlyMemory<byte>[] kept = [.. envelopes.Select(static e => (ReadOnlyMemory<byte>)e.ToArray())];
        return Make(subject, limits, stream =>
        {
            if (stream is null || !Publish(subject, kept, done)) done(false);
        });
    }

    internal bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done) =>
        Read(new Reading(subject, limits, after, most, done));

    /// <summary>Reason why the server keeps no streams; null if none is known.</summary>
    internal string? Unsupported { get; private set; }

    /// <summary>Clears the state of an ended connection.</summary>
    internal void Forget()
    {
        Unsupported = null;
        _made.Clear();
        _told.Clear();
    }

    private bool IsMade(string subject, HistoryLimits limits) =>
        _made.TryGetValue(subject, out HistoryLimits? made) && made == limits;

    // ------------------------------------------------------------------ streams

    /// <summary>Creates the stream, or updates its limits.</summary>
    private bool Make(string subject, HistoryLimits limits, Action<NatsStream?> done)
    {
        if (bus.Link.Session is not { Protocol: NatsProtocol { Info: { } info } }) return false;
        if (info.IsClustered)
        {
            // With one replica in memory, a restarted server would start the stream again with the same epoch.
            Refuse("recoverable groups are not built for clusters of NATS servers, only for one server");
            return false;
        }

        byte[] configuration = NatsStream.Configure(subject, limits, info.MaxPayload);
        return AskStream("CREATE", subject, configuration, (stream, error) =>
        {
            if (error == NatsStream.Different)
            {
                if (!AskStream("UPDATE", subject, configuration, (changed, _) => Made(changed))) done(null);
            }
            else
            {
                Made(stream);
            }
        });

        void Made(NatsStream? stream)
        {
            if (stream is not null) _made[subject] = limits;
            done(stream);
        }
    }

    private bool AskStream(string what, string subject, byte[] payload, Action<NatsStream?, int> done,
        int tries = MostTries) =>
        requests.Ask($"$JS.API.STREAM.{what}.{NatsStream.NameOf(subject)}", [payload], (_, answer, body) =>
        {
            if (answer != NatsAnswer.Said)
            {
                if (answer == NatsAnswer.Nobody)
                    Refuse("it has no JetStream, which recoverable groups need: jetstream {} in its configuration");
                done(null, 0);
                return;
            }

            NatsStream? stream = NatsStream.Read(body, out int error, out string text);
            // A server that is creating the same stream for another node may report an overlap. A retry finds the
            // existing stream.
            if (error == NatsStream.Overlaps && tries > 1 && AskStream(what, subject, payload, done, tries - 1)) return;
            if (error == NatsStream.Overlaps) text = "its subjects are those of another stream";
            if (stream is null && error is not (NatsStream.Different or NatsStream.NotThere))
                Tell($"a stream for {subject}: {text}");
            done(stream, error);
        });

    // ------------------------------------------------------------------ messages

    private bool Publish(string subject, IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<bool> done)
    {
        int left = envelopes.Count, stored = 0;
        return requests.Ask(NatsStream.SubjectOf(subject), envelopes, (_, answer, body) =>
        {
            left--;
            string? why = null;
            if (answer == NatsAnswer.Said && NatsStream.IsStored(body, out why)) stored++;
            else if (answer == NatsAnswer.Nobody) _made.Remove(subject); // deleted: the next append creates it again
            if (why is not null) Tell($"a message of {subject}: {why}");
            if (left == 0) done(stored == envelopes.Count);
        });
    }

    private bool Read(Reading one)
    {
        if (!IsMade(one.Subject, one.Limits)) return Make(one.Subject, one.Limits, stream => Found(one, stream));
        return AskStream("INFO", one.Subject, [], (stream, error) =>
        {
            if (error == NatsStream.NotThere) _made.Remove(one.Subject);
            if (error != NatsStream.NotThere || !Read(one)) Found(one, stream);
        });
    }

    private void Found(Reading one, NatsStream? stream)
    {
        one.Stream = stream;
        if (stream is null)
        {
            one.Done(null);
            return;
        }

        if (one.Missing >= stream.First)
        {
            // A message is missing inside the stream: the later ones cannot be delivered without a gap.
            Tell($"message {one.Missing} of {one.Subject} is missing: its stream starts again");
            _made.Remove(one.Subject);
            if (!requests.Ask($"$JS.API.STREAM.DELETE.{NatsStream.NameOf(one.Subject)}",
                [default], (_, _, _) => one.Done(null)))
                one.Done(null);
            return;
        }

        one.From = one.After >= stream.Last ? stream.Last + 1 : Math.Max(one.After + 1, stream.First);
        one.Until = (ulong)Math.Min((long)(stream.Last + 1 - one.From), one.Most) + one.From;
        one.Entries.Clear();
        one.Bytes = 0;
        ReadOn(one, 16);
    }

    /// <summary>
    /// Requests the next messages in parallel, limited so that a page is not much larger than allowed.
    /// </summary>
    private void ReadOn(Reading one, int atOnce)
    {
        ulong at = one.From + (ulong)one.Entries.Count;
        int count = (int)Math.Min((ulong)atOnce, one.Until - at), left = count;
        if (count == 0 || one.Bytes >= MostPageBytes)
        {
            one.Done(new HistoryPage(one.Stream!.Epoch, one.Stream.First, one.Stream.Last, one.Entries));
            return;
        }

        byte[]?[] read = new byte[count][];
        ReadOnlyMemory<byte>[] wanted = [.. Enumerable.Range(0, count)
            .Select(i => (ReadOnlyMemory<byte>)NatsStream.Get(at + (ulong)i))];
        bool isTaken = requests.Ask($"$JS.API.DIRECT.GET.{NatsStream.NameOf(one.Subject)}", wanted,
            (index, answer, body) =>
            {
                if (answer == NatsAnswer.Said) read[index] = body.ToArray();
                else if (answer == NatsAnswer.NotFound) one.Missing = Math.Max(one.Missing, at + (ulong)index);
                if (--left == 0) Came(one, read);
            });
        if (!isTaken) one.Done(null);
    }

    private void Came(Reading one, byte[]?[] read)
    {
        if (read.All(static r => r is not null))
        {
            foreach (byte[]? envelope in read)
            {
                one.Entries.Add(new HistoryEntry(one.From + (ulong)one.Entries.Count, envelope));
                one.Bytes += envelope!.Length;
            }

            ReadOn(one, 64);
        }
        else if (one.Missing == 0 || ++one.Tries == MostTries || !Read(one))
        {
            // Missing messages were probably trimmed after the stream's state was read: it is read again.
            one.Done(null);
        }
    }

    private void Refuse(string why)
    {
        Unsupported = $"{bus.Link.Reached}: {why}.";
        Tell(why);
    }

    /// <summary>Reports a problem, once per connection.</summary>
    private void Tell(string what)
    {
        if (_told.Count < 64 && _told.Add(what)) bus.Link.Refused(what);
    }

    private sealed class Reading(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done)
    {
        internal string Subject => subject;

        internal HistoryLimits Limits => limits;

        internal ulong After => after;

        internal int Most => most;

        internal Action<HistoryPage?> Done => done;

        internal List<HistoryEntry> Entries { get; } = [];

        internal NatsStream? Stream { get; set; }

        internal ulong From { get; set; }

        internal ulong Until { get; set; }

        internal long Bytes { get; set; }

        internal int Tries { get; set; }

        /// <summary>Sequence of the last missing message; 0 for none.</summary>
        internal ulong Missing { get; set; }
    }
}
