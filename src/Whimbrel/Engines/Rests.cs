using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Residents whose receive failed for lack of memory, which may last: they are tried again after a rest, instead of in every turn. A part of an
/// engine's loop; its thread only.
/// </summary>
/// <param name="loop">Whose timer ends the rest.</param>
/// <param name="rested">It is over: receives again, if somebody still wants to.</param>
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
        // Who fails at once again rests anew.
        for (int count = _resting.Count; count > 0; count--)
        {
            (Resident resident, uint generation) = _resting.Dequeue();
            if (resident.Slot >= 0 && resident.SlotGeneration == generation) rested(resident);
        }
    }
}
