namespace Whimbrel.Bench.Peers;

/// <summary>What the old multicast servers send: a million messages a second, one in each call, from a thread of its own. Here they are numbered.</summary>
internal static class OldProducer
{
    /// <summary>A session that has so many bytes pending misses messages (W3).</summary>
    public const int MostPending = 1024 * 1024;

    private const int Rate = 1_000_000;

    public static void Start(Action<byte[]> multicast) => new Thread(() =>
    {
        var message = new byte[Message.Size];
        for (ulong sequence = 0; ;)
        {
            var start = Environment.TickCount64;
            for (var i = 0; i < Rate; i++)
            {
                Message.Write(message, sequence++);
                multicast(message);
            }

            Thread.Sleep((int)Math.Max(0, 1000 - (Environment.TickCount64 - start)));
        }
    })
    { IsBackground = true, Name = "producer" }.Start();
}
