using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Residents with a receive that failed for lack of memory. They are tried again after a rest instead of in every turn.
/// Part of an engine's loop; its thread only.
/// </summary>
/// <param name="loop">Loop with the timer that ends the rest.</param>
/// <param name="rested">Called for each resident after its rest; starts receiving again when it is still wanted.</param>
internal sealed class Rests(Loop loop, Action<Resident> rested)
{
    private const int RestMs = 10;

    private readonly Queue<(Resident Resident, uint Generation)> _resting = new();
    private bool _isTimed;

    internal void Add(Resident resident)
    {
        _resting.Enqueue((resident, resident.SlotGeneration));
        if (_isTimed) return;
        _isTimed = true;
        loop.StartTimer(TimeSpan.FromMilliseconds(RestMs), static rests => ((Rests)rests!).End(), this);
    }

    /// <summary>The loop ends, and its timers have.</summary>
    internal void Clear()
    {
        _resting.Clear();
        _isTimed = false;
    }

    private void End()
    {
        _isTimed = false;
        // A resident that fails at once is added again.
        for (int count = _resting.Count; count > 0; count--)
        {
            (Resident resident, uint generation) = _resting.Dequeue();
            if (resident.Slot >= 0 && resident.SlotGeneration == generation) rested(resident);
        }
    }
}
