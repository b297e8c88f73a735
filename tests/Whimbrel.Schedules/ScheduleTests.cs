namespace Whimbrel.Schedules;

// The code of the core itself, in every order of its threads up to a number of preemptions: inboxes, the sleep and the
// wake-ups of the loop, the serial queue of the pool with its direct send, and the stop.
public sealed class ScheduleTests
{
    private const int MostOrders = 10_000;
    private const int RandomOrders = 1_500;
    private const int MostDeepOrders = 500_000;

    [Fact]
    public void Sends_of_two_threads_reach_a_loop_that_falls_asleep() => Explore(2, static () =>
        new InboxStory(Scheduling.Inline)
        {
            Callers = [static s => s.Send("a1"), static s => s.Send("b1")],
        });

    [Fact]
    public void Sends_of_one_thread_arrive_in_their_order() => Explore(3, static () =>
        new InboxStory(Scheduling.Inline, static s => s.Send("l1"), requests: 1)
        {
            Callers = [static s => { s.Send("a1"); s.Send("a2"); }],
        });

    [Fact]
    public void A_mark_is_true_after_the_bytes_before_it() => Explore(2, static () =>
        new InboxStory(Scheduling.Inline, room: 1)
        {
            Callers = [static s => { s.Send("a1"); s.Mark("a1"); }, static s => s.SendAsync("b1")],
        });

    [Fact]
    public void A_broadcast_after_a_join_reaches_the_member_after_what_it_was_sent_before() => Explore(2, static () =>
        new InboxStory(Scheduling.Inline)
        {
            Callers =
            [
                static s => { s.Send("a1"); s.Join(); s.Broadcast("a2"); s.Send("a3"); },
                static s => s.Send("b1"),
            ],
        });

    [Fact]
    public void A_stop_loses_no_accepted_send_without_a_report() => Explore(2, static () =>
        new InboxStory(Scheduling.Inline)
        {
            MayEnd = true,
            Callers = [static s => { s.Send("a1"); s.SendAsync("a2"); }, static s => s.Stop()],
        });

    [Fact]
    public void A_close_and_a_send_of_another_thread_lose_nothing_without_a_report() => Explore(2, static () =>
        new InboxStory(Scheduling.Inline)
        {
            MayEnd = true,
            Callers = [static s => { s.Send("a1"); s.Close(); }, static s => { s.Send("b1"); s.Mark("b1"); }],
        });

    [Fact]
    public void A_callback_on_the_pool_sends_directly_while_another_thread_sends() => Explore(2, static () =>
        new InboxStory(Scheduling.ThreadPool, static s => { s.Send("p1"); s.Send("p2"); }, room: 3, requests: 1)
        {
            Callers = [static s => s.Send("a1")],
        });

    [Fact]
    public void Requests_that_arrive_while_a_callback_runs_run_one_after_the_other() => Explore(2, static () =>
        new InboxStory(Scheduling.ThreadPool, static s => s.Send($"p{s.Callbacks}"), requests: 2) { PoolThreads = 2 });

    [Fact]
    public void A_stop_waits_for_a_callback_on_the_pool_and_for_its_direct_send() => Explore(2, static () =>
        new InboxStory(Scheduling.ThreadPool, static s => { s.Send("p1"); s.Send("p2"); }, room: 3, requests: 1)
        {
            MayEnd = true,
            Callers = [static s => s.Stop()],
        });

    /// <summary>
    /// Every order with one preemption, and random ones with more. The long variant runs every order with as many
    /// preemptions as the test says.
    /// </summary>
    private static void Explore(int preemptions, Func<InboxStory> create)
    {
        if (!Depth.IsDeep)
        {
            Run(new Explorer(1), create, 1, MostOrders);
            Run(new Explorer(4, seed: 1), create, 4, RandomOrders);
            return;
        }

        Run(new Explorer(preemptions), create, preemptions, MostDeepOrders);
    }

    private static void Run(Explorer explorer, Func<InboxStory> create, int preemptions, int most)
    {
        bool isComplete = explorer.Run(() => create().Begin(), most);
        TestContext.Current.TestOutputHelper!.WriteLine($"{explorer.Executions:n0} orders, {explorer.AllSteps:n0} "
            + $"steps, {(isComplete ? "all" : "not all")} with {preemptions} preemptions");
        Assert.True(explorer.Executions > 50, "the scenario has hardly any points");
    }
}
