using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class GatheringStrandsTests
{
    [Fact]
    public void Each_strand_has_its_own_place_and_a_strand_without_one_is_rejected()
    {
        Strand[] strands = Strands(6);
        GatheringStrands noted = new();
        noted.Post();
        // All belong to one thread, which tries four places.
        int[] places = [.. strands.Select(noted.Enter)];
        Assert.Equal(4, places.Where(static p => p >= 0).Distinct().Count());
        Assert.Equal([-1, -1], places[4..]);
        Assert.Equal(4, noted.Count);
        noted.Leave(places[2]);
        Assert.Equal(3, noted.Count);
        Assert.Equal(places[2], noted.Enter(strands[5]));
        noted.Post();
        foreach (int place in places[..4]) noted.Leave(place);
        Assert.Equal(0, noted.Count);
    }

    private static Strand[] Strands(int count)
    {
        MemoryEngine engine = new(1);
        List<Session> sessions = [];
        MemoryEndPoint here = new("here");
        Server server = new(new ServerOptions { Engine = engine, EndPoint = here, Scheduling = Scheduling.ThreadPool }, () => new Idle(sessions));
        engine.Run(server.StartAsync());
        for (int i = 0; i < count; i++) engine.Connect(here);
        engine.RunUntilIdle();
        return [.. sessions.Select(static s => s.Connection!.Strand!)];
    }

    private sealed class Idle(List<Session> sessions) : Session
    {
        protected override void OnConnected() => sessions.Add(this);
    }
}
