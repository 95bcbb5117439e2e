"""Requests as people make them, over everyday subjects: written for this table, from nothing but the lists below and the teacher's vocabulary."""
import numpy as np

# subject | what one does | with what | how, where, for whom
SUBJECTS = """
weather|check; look up; get; compare|the forecast; the temperature; humidity and wind; rain radar; storm warnings; sunrise and sunset times; the pollen count; air quality; snow depth|for tomorrow; for the weekend; in the mountains; by zip code; for the next seven days; near the coast
travel|plan; book; find; compare; reschedule|a weekend trip; cheap flights; a round trip; a train ticket; an itinerary; travel insurance; airport transfers; a cruise; a campsite|to Lisbon; in spring; with two children; on a small budget; without a layover; for a group of six
hotels|search; reserve; cancel; rate|a hotel room; a hostel; a holiday apartment; a bed and breakfast; a suite with breakfast|near the station; for three nights; with parking; that takes dogs
flights|track; check; find|flight status; the departure gate; delays; seat maps; baggage rules; airline schedules; airport codes|for today; by flight number; from Denver
restaurants|find; book; recommend; review|a restaurant; a table for two; a place for brunch; vegan food nearby; a pizza delivery; the menu of the day|downtown; open late; with good reviews
cooking|find; write; scale; convert|a recipe; a meal plan; ingredients I can swap; a shopping list; cooking times; a dessert without sugar; a cocktail; leftovers to use up|for dinner tonight; for beginners; with what is in my fridge; low in carbs
groceries|compare; order; list|prices of groceries; organic vegetables; a weekly basket; coupons|from the nearest store; with delivery
nutrition|count; analyse; track|calories; protein and fat; vitamins; my water intake; food allergies|of a meal; from a barcode
fitness|build; log; suggest|a workout; a training plan; running routes; yoga poses; my steps; heart rate zones; a stretching routine|at home; for a marathon; after an injury
health|check; explain; find; remind me of|symptoms; a doctor; a pharmacy; side effects of a drug; blood pressure readings; vaccination dates; clinical trials; a diagnosis; lab results|near me; for older people; in simple words
mind|suggest; guide me through; keep|a meditation; breathing exercises; a mood journal; sleep sounds; ways to lower stress|before bed; at work
pets|find; identify; name|a vet; a dog breed; cat food; pet adoption listings; a puppy training plan|in my town; from a photo
plants|identify; water; plan|a houseplant; a vegetable garden; garden pests; planting dates; soil types|on a balcony; for a dry climate
home|find; design; estimate|furniture; a kitchen layout; paint colours; a plumber; the cost of a renovation; smart lights; a floor plan|for a small flat; before winter
smart home|turn on; switch off; schedule; dim|the lights; the heating; the thermostat; the vacuum robot; door locks; security cameras; sprinklers|in the bedroom; when I leave; at sunset
real estate|search; value; compare|houses for sale; rental listings; mortgage rates; property taxes; neighbourhood statistics; an apartment|under a price limit; near good schools
shopping|find; compare; track; review|a product; the best price; discounts; gift ideas; a laptop; running shoes; a used phone; delivery options; product reviews|for my sister; under fifty dollars; on several shops
fashion|suggest; match; find|an outfit; a dress; sneakers; a haircut; jewelry; a winter coat; makeup|for a wedding; in my size
orders|track; cancel; return; place|a parcel; my order; a shipment; a refund; an invoice|by tracking number; from last week
money|convert; transfer; budget; track|currencies; exchange rates; monthly expenses; a bank transfer; savings goals; a loan; interest payments; my net worth|from euros to yen; for the household; this quarter
investing|show; analyse; compare; alert me to|stock prices; dividends; crypto prices; an index fund; earnings reports; a portfolio; bond yields; option chains; insider trades; market news|for a ticker; since January; against the market
taxes|calculate; file; explain|income tax; sales tax; deductions; a tax return; payroll|for the self-employed; in Canada
insurance|compare; quote; claim|car insurance; a life policy; health coverage; damage to my phone|for a new driver
legal|draft; review; explain; search|a contract; a lease; terms of service; court cases; patents; trademarks; privacy rules; a lawyer|in plain language; by jurisdiction
jobs|find; apply for; prepare; write|a job; a résumé; a cover letter; interview questions; salary ranges; internships; remote work; freelancers|in marketing; without experience; as a nurse
learning|teach me; explain; quiz me on; find|algebra; a language; chemistry; world history; guitar chords; online courses; flash cards; a study plan; a textbook; spelling|for my daughter; in ten minutes a day; step by step
kids|suggest; tell; find|a bedtime story; a craft project; games for a birthday; a babysitter; learning apps; colouring pages|for a toddler; on a rainy day
languages|translate; pronounce; define; correct|a sentence; a word; an email; subtitles; grammar mistakes; synonyms; idioms; slang|into Spanish; from Japanese; in a polite tone
writing|write; rewrite; summarise; proofread|an essay; a poem; a blog post; a speech; a press release; a product description; song lyrics; a short story; a long report|in a friendly voice; in under a hundred words
books|recommend; find; summarise|a novel; books by an author; an audiobook; a library; book reviews; quotations; a comic|about the sea; for a book club
news|show; search; summarise|headlines; local news; sports news; technology articles; press coverage; podcasts about politics|of this morning; from several sources; about elections
films|find; rate; recommend|a film; a series; showtimes; actors; trailers; subtitles; streaming services; box office figures; an anime|like the one I saw; for family night
music|play; find; create; identify|a playlist; song lyrics; concerts; an album; an artist; guitar tabs; a beat; similar songs; a radio station|for running; from the eighties; in a minor key
photos|edit; search; generate; describe|a photo; stock pictures; a logo; a portrait; an image from text; the background of a picture; a colour palette; an icon|with more contrast; in high resolution; for a poster
video|cut; download; transcribe; summarise; upload|a video; a video transcript; captions; a clip; a channel; comments under a video; a live stream; thumbnails|to a smaller size; with background music
audio|record; transcribe; convert|a voice note; speech to text; text to speech; a podcast episode; an interview; noise|into a clean file; with timestamps
games|find; play; look up|a chess game; trivia; a crossword; video game deals; player statistics; a dungeon adventure; cheats; a leaderboard; poker hands|with friends; for a console
sports|show; predict; compare|football scores; league tables; fixtures; basketball statistics; betting odds; player transfers; race results; a tennis ranking; cricket scores; golf courses|from last night; for this season
astronomy|show; find; calculate|planets tonight; moon phases; a satellite pass; pictures of space; star maps; asteroids near earth|from my location
horoscopes|read; tell|my horoscope; tarot cards; a birth chart; the meaning of a dream; my lucky number|for today; for a sign
maps|find; measure; route|directions; the distance; traffic; a parking space; petrol stations; charging stations; coordinates; elevation; a walking route; an address|between two cities; around here; by bicycle
transit|find; check|the next bus; subway lines; train delays; a ferry; bike sharing; fares|from the museum; after midnight
cars|compare; find; estimate; decode|a used car; fuel prices; a repair shop; a licence plate; a vehicle number; tyres; electric cars|by model year; for a family
science|search; explain; simulate|research papers; a theorem; protein structures; chemical compounds; genes; a physics experiment; citations; species|by author; with references; from the last decade
maths|solve; plot; calculate; prove|an equation; a triangle; probabilities; an integral; a matrix; compound interest; percentages; statistics; prime numbers; a unit conversion|step by step; to four digits
data|chart; clean; analyse; visualise; merge|a spreadsheet; survey results; a table; sales figures; outliers; a time series; a dashboard; a pivot table|by region; as a bar chart; without duplicates
databases|query; back up; create; migrate|a database; tables; a schema; an index; stored rows; a record|with a join; in production
code|write; review; run; debug; explain; refactor|a function; a script; a regular expression; unit tests; a stack trace; a pull request; an algorithm; a web page; a memory leak|in a new language; without dependencies
repositories|open; list; close; merge; fork|an issue; commits; a branch; a release; contributors; code owners; a milestone|of the project; since the last tag
servers|deploy; restart; monitor; scale|a container; a cluster; a virtual machine; load; logs; certificates; a cron job; uptime|in the cloud; when it fails
web|scrape; open; search; click; screenshot|a web page; search results; links; a form; a button; page titles; site speed; a browser tab; keywords|in the background; as clean text; for ranking
domains|check; look up; register|a domain; dns records; who owns a site; an ip address; redirects|before it expires
files|read; write; move; rename; delete; search; compress|a file; a folder; an archive; old backups; a text document; file sizes; a directory tree; line endings|on the desktop; by pattern; newer than a week
documents|convert; merge; sign; fill in; extract|a pdf; a form; a slide deck; a word document; an invoice; a table from a scan; page numbers; a contract|into markdown; with a password
notes|take; find; organise; tag|a note; meeting minutes; a to-do list; a bookmark; my journal; a knowledge base; a mind map|by topic; from yesterday
calendar|schedule; move; cancel; list|a meeting; an appointment; a reminder; public holidays; free slots; a birthday; office hours; a time zone|for next Tuesday; with the whole team; every month
email|send; search; draft; forward; unsubscribe from|an email; unread messages; attachments; newsletters; a reply; spam; contacts|to my landlord; with a polite excuse
chat|send; read; post|a message; a group chat; channel history; reactions; a voice call; a sticker|to the team; in a thread
social media|post; schedule; analyse; find|a tweet; followers; hashtags; an influencer; a caption; engagement; trending topics; profile pictures; comments|on several networks; for a brand
marketing|plan; write; measure; find|a campaign; ad copy; search keywords; leads; a landing page; email open rates; competitors; a slogan; customer segments|for a small shop; this month
customers|answer; log; look up|a support ticket; a complaint; customer history; a warranty; opening hours; a deal in the pipeline|by phone number; with high priority
companies|find; verify; compare|a company; business registrations; employees; revenue; an address of a firm; suppliers; credit ratings|by industry; in Europe
people|find; verify; greet|an email address; a phone number; a profile; an old friend; a mentor; random names; gender of a name; a zip code|by name; with a photo
projects|create; assign; track; close|a task; a sprint; a deadline; a time sheet; a board; a bug; a checklist; a budget|for the design team; before Friday
security|scan; check; generate; reset|a password; a suspicious link; a leaked account; vulnerabilities; a virus; two-factor codes; an encryption key; permissions|for weak spots; before I click
events|find; plan; buy|concert tickets; a festival; a birthday party; a wedding; a conference; a museum visit; things to do; a charity run|this weekend; for fifty guests; free of charge
dating|write; suggest; find|a dating profile; a first message; date ideas; a love letter; an anniversary gift|for shy people
jokes|tell; find; make|a joke; a meme; fun facts; a riddle; a quote of the day; a random animal picture; a pun|about cats; to cheer me up
religion|find; read; explain|a verse; prayer times; a sermon; a holy day|for today
government|look up; apply for; find|a passport; election results; public records; a visa; a law; census data; voting stations; parliament debates|in my state
environment|measure; compare; find|carbon emissions; recycling points; energy use; water quality; endangered animals; solar panels|per household; by country
farming|plan; monitor|crops; livestock; soil moisture; fertiliser; harvest dates|for a small farm
energy|compare; track; forecast|electricity prices; gas meters; grid load; oil prices; a battery|by hour
manufacturing|order; inspect; design|machine parts; a circuit board; a three-dimensional model; quality defects; stock in the warehouse|before shipping
history|tell me about; date; find|an ancient battle; a king; a museum piece; family records; old maps; a historical event|of the nineteenth century
art|find; explain; draw|a painting; a sculpture; an exhibition; a sketch; a tattoo; pixel art; a diagram; a flow chart|in the style of a poster
blockchain|show; send; estimate; swap|a wallet balance; gas fees; token prices; a transaction; smart contracts; a collectible; liquidity pools|on a test network
machine learning|train; compare; run; search|a model; embeddings; a dataset; a chatbot; prompts; an image classifier; similar documents; a memory of facts|with few examples; on my own data
names|generate; suggest|a username; a brand name; a baby name; a password; random numbers; a fake address; sample data; a barcode; a qr code|for testing; that is easy to remember
units|convert|miles to kilometres; cups to grams; Fahrenheit to Celsius; time zones; a colour code; a roman numeral; a date; binary numbers|at once
"""

OPEN = [
    "{}", "{}", "{}", "I want to {}", "I need to {}", "I'd like to {}", "can you {}?", "could you please {}?", "please {}", "help me {}",
    "how do I {}?", "is there a way to {}?", "I'm trying to {}", "I am looking for something that can {}", "what is the best way to {}?",
    "show me how to {}", "let me {}", "find a tool to {}", "we have to {} today", "my friend asked me to {}", "I have no idea how to {}, any help?",
    "I'm interested in tools that {}", "would you {} for me?", "what can I use to {}?", "{} for me", "any suggestions on how to {}?",
]
AND = [
    "{0}. Also, {1}.", "I'd like to {0} and then {1}.", "Can you {0}? Additionally, {1}.", "{0} and {1}", "First {0}, then {1}, and finally {2}.",
    "I'm planning something with my family. Please {0}. I also want to {1}.", "For my company I have to {0}. Could you also {1}? Thank you!",
    "I am curious. {0}, {1}, and {2}, please.", "My friends are visiting soon. Help me {0}, and {1}. It would be great to {2} too.",
]
TOOL = ["A tool to {}", "Use this to {}.", "Lets you {}", "An assistant that can {}", "This plugin helps users {}.", "{} with one call"]
VALUES = [
    "with ID {n}", "for 'Maria Keller'", "on 2024-0{d}-1{d}", "in Berlin", "for user {n}", "where the code is \"x{n}Q\"", "at {d} pm", "with a limit of {d}0",
    "for Toronto and Osaka", "of type '{w}'", "named {w}", "since March", "up to {n} dollars", "called '{w} {w2}'", "for the {w} department", "in the category {w}",
]
PAIR = [
    "{a} {b}", "{a} {b} {c}", "{a} and {b}", "find {a} {b}", "get the {a} of the {b}", "list {a} for {b}", "search {b} by {a}", "{a}: {b}, {c}",
    "I want to know about {a} and {b}", "what is the {a} of {b}?", "Returns the {a} for a {b}.", "create a {a} with {b}", "{a} {b} information",
    "Provides {a} and {b} about {c}", "can you help me with {a} {b}?", "my {a} needs a {b}", "the best {a} for {b}", "show {a}", "{a} API for {b}", "tell me more about {a}, {b} and {c}",
]


def phrases():
    out = []
    for line in SUBJECTS.strip().split("\n"):
        subject, verbs, things, hows = line.split("|")
        part = lambda text: [x.strip() for x in text.split(";")]
        for thing in part(things):
            for verb in part(verbs):
                out.append((subject, f"{verb} {thing}", part(hows)))
    return out


def filled(rng, word):
    text = VALUES[rng.integers(len(VALUES))]
    return text.format(n=rng.integers(10, 99999), d=rng.integers(1, 9), w=word(), w2=word())


def wishes(rng, words, alone, joined):
    """Requests for one thing, and for several at once."""
    known = phrases()
    word = lambda: words[rng.integers(len(words))]

    def one(i=None):
        subject, text, hows = known[rng.integers(len(known)) if i is None else i]
        if rng.random() < 0.5:
            text += " " + hows[rng.integers(len(hows))]
        if rng.random() < 0.15:
            text += " " + filled(rng, word)
        return subject, text

    for n in range(alone):
        subject, text = one(n % len(known))
        to = OPEN if rng.random() < 0.8 else TOOL
        text = to[rng.integers(len(to))].format(text)
        yield "wish", f"{subject}: {text}" if rng.random() < 0.1 else text
    for _ in range(joined):
        yield "wishes", AND[rng.integers(len(AND))].format(*(one()[1] for _ in range(3)))


def pairs(rng, words, vectors, many):
    """A word of the vocabulary with words near to it in meaning, so that rare ones are learned too."""
    near = None
    for n in range(many):
        at = n % len(words)
        if at % 1000 == 0:
            like = -(vectors[at : at + 1000] @ vectors.T)
            best = np.sort(np.argpartition(like, 25, axis=1)[:, :25], axis=1)
            order = np.argsort(np.take_along_axis(like, best, 1), axis=1, kind="stable")
            near = np.take_along_axis(best, order, 1)[:, 1:]
        b = near[at % 1000][rng.integers(24)] if rng.random() < 0.6 else rng.integers(len(words))
        c = near[at % 1000][rng.integers(24)] if rng.random() < 0.4 else rng.integers(len(words))
        yield "words", PAIR[rng.integers(len(PAIR))].format(a=words[at], b=words[b], c=words[c])
