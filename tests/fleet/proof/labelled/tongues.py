"""Sentences of many languages, put together from parts: subject, verb and object, and what stands between them."""

import random
from typing import NamedTuple


class Tongue(NamedTuple):
    """Parts of a sentence, what joins them, and what ends it."""

    subjects: tuple[str, ...]
    verbs: tuple[str, ...]
    objects: tuple[str, ...]
    joint: str = " "
    stop: str = ". "

    def sentence(self, rng: random.Random) -> str:
        parts = (rng.choice(self.subjects), rng.choice(self.verbs), rng.choice(self.objects))
        text = self.joint.join(parts)
        return text[0].upper() + text[1:] + self.stop

    def text(self, rng: random.Random, sentences: int) -> str:
        return "".join(self.sentence(rng) for _ in range(sentences)).strip()


def _of(subjects: str, verbs: str, objects: str, joint: str = " ", stop: str = ". ") -> Tongue:
    return Tongue(*(tuple(part.split("/")) for part in (subjects, verbs, objects)), joint, stop)


GERMAN = _of(
    "die alte Brücke/der neue Nachbar/ein müder Kellner/das Museum am Fluss/unsere Lehrerin/der Hund des Bäckers/"
    "die zweite Auflage/jedes dritte Fahrrad/eine Gruppe von Touristen/der Regen im April",
    "erinnert an/wartet seit gestern auf/verändert langsam/übersieht manchmal/braucht dringend/bezahlt nur selten/"
    "kennt seit vielen Jahren/versteckt sich hinter",
    "den Bahnhof der Nachbarstadt/einen verlorenen Schlüssel/die Rechnung vom letzten Monat/das kleine Café/"
    "frische Farbe/die Gewohnheiten der Gäste/ein Gespräch über Politik/den Duft von Kaffee/die Öffnungszeiten",
)
FRENCH = _of(
    "le facteur du village/ma cousine/un vieux pêcheur/la pluie de novembre/notre voisin du dessus/"
    "le directeur adjoint/une hirondelle/le dernier train/la boulangère",
    "ramène toujours/n'oublie jamais/traverse avec prudence/raconte volontiers/a perdu/préfère de loin/"
    "dessine sur le mur/attend devant",
    "la place du marché/une lettre sans adresse/les histoires de son enfance/le parapluie bleu/un panier de cerises/"
    "la clé du grenier/quelques pièces d'or/l'horloge de la gare",
)
POLISH = _of(
    "stary zegarmistrz/moja siostra/nowy sąsiad/pociąg z Krakowa/nasza nauczycielka/czarny kot/burmistrz miasta/"
    "każdy turysta/właściciel kawiarni",
    "zawsze zamyka/powoli naprawia/często zapomina o/z radością ogląda/nigdy nie sprzedaje/szuka wszędzie/"
    "opisuje w liście",
    "drewniane okno/zepsuty rower/zdjęcia z wakacji/klucz od piwnicy/most nad rzeką/przepis na zupę/bilet do teatru/"
    "mapę starego miasta",
)
TURKISH = _of(
    "yaşlı balıkçı/komşunun kızı/yeni öğretmen/küçük kedi/fırıncı/belediye başkanı/her yolcu/bahçıvan",
    "dün akşam/her sabah/bazen sessizce/köprünün altında/çarşıda/yağmur başlayınca",
    "eski bir anahtar buldu/mavi kapıyı boyadı/uzun bir mektup yazdı/taze ekmek sattı/treni kaçırdı/"
    "çocuklara masal anlattı/saatini tamir etti/denize baktı",
)
VIETNAMESE = _of(
    "người thợ già/cô giáo mới/con mèo đen/chuyến tàu cuối/ông hàng xóm/em gái tôi/người bán hoa",
    "thường đi qua/đang chờ trước/quên mất/rất thích/không bao giờ bán/vẽ lại/tìm thấy",
    "cây cầu gỗ/quán cà phê nhỏ/chiếc chìa khóa cũ/bức thư không tên/mùi bánh mì/những câu chuyện xưa/cái ô màu xanh",
)
RUSSIAN = _of(
    "старый часовщик/моя соседка/новый учитель/последний поезд/чёрный кот/директор музея/каждый турист/наш пекарь",
    "медленно чинит/всегда помнит/никогда не продаёт/ищет повсюду/описывает в письме/часто рисует",
    "деревянный мост/потерянный ключ/синий зонт/вкус свежего хлеба/карту старого города/билет в театр/"
    "разговор о погоде/фотографии из отпуска",
)
ARABIC = _of(
    "الجار الجديد/معلمة المدرسة/القطار الأخير/صاحب المقهى/أخي الصغير/عامل المكتبة/الصياد العجوز",
    "ينتظر منذ الصباح/لا ينسى أبدا/يصف في رسالته/يبحث دائما عن/يرسم على الجدار/يحب كثيرا",
    "مفتاح البيت القديم/رائحة الخبز/جسر المدينة/قصة الطفولة/مظلة زرقاء/خريطة السوق/ساعة المحطة/كتاب بلا غلاف",
)
HEBREW = _of(
    "השכן החדש/המורה הוותיקה/הרכבת האחרונה/בעל המאפייה/אחותי הקטנה/השומר במוזיאון",
    "מחפש כל יום את/שוכח לפעמים את/מתאר במכתב את/מצייר לאט את/אוהב מאוד את",
    "המפתח הישן/ריח הלחם/הגשר מעל הנהר/השעון בתחנה/המטרייה הכחולה/המפה של העיר/הסיפור מהילדות",
)
HINDI = _of(
    "पुराना घड़ीसाज़/मेरी बहन/नया शिक्षक/आखिरी रेलगाड़ी/काली बिल्ली/दुकान का मालिक/हर यात्री",
    "धीरे धीरे/हर सुबह/कभी कभी/बारिश के बाद/बाज़ार में/पुल के नीचे",
    "पुरानी चाबी ढूँढता है/नीला छाता भूल जाता है/ताज़ी रोटी बेचता है/लंबी चिट्ठी लिखता है/बच्चों को कहानी सुनाता है/नदी की ओर देखता है",
    stop="। ",
)
KOREAN = _of(
    "늙은 시계공은/우리 선생님은/새 이웃은/마지막 기차는/검은 고양이는/빵집 주인은/모든 여행자는",
    "천천히/매일 아침/가끔 조용히/비가 온 뒤에/시장에서/다리 아래에서",
    "오래된 열쇠를 찾는다/파란 우산을 잊는다/긴 편지를 쓴다/아이들에게 이야기를 들려준다/강을 바라본다/신선한 빵을 판다/옛 지도를 고친다",
)
GREEK = _of(
    "ο παλιός ωρολογοποιός/η αδελφή μου/το τελευταίο τρένο/ο νέος γείτονας/η μαύρη γάτα/ο φούρναρης",
    "ψάχνει παντού/ξεχνά συχνά/περιγράφει στο γράμμα/ζωγραφίζει αργά/δεν πουλά ποτέ",
    "το παλιό κλειδί/τη μπλε ομπρέλα/τη γέφυρα του χωριού/τον χάρτη της πόλης/τη μυρωδιά του ψωμιού/το ρολόι του σταθμού",
)
THAI = _of(
    "ช่างนาฬิกาแก่/ครูคนใหม่/แมวสีดำ/รถไฟขบวนสุดท้าย/เพื่อนบ้านของฉัน/เจ้าของร้านขนมปัง/นักท่องเที่ยวทุกคน",
    "มักจะลืม/กำลังรอหน้า/ไม่เคยขาย/ค่อยๆซ่อม/ชอบเดินผ่าน/วาดภาพ",
    "สะพานไม้เก่า/กุญแจที่หายไป/ร่มสีฟ้า/กลิ่นขนมปังอบใหม่/แผนที่เมืองเก่า/ตั๋วโรงละคร/เรื่องเล่าในวัยเด็ก/นาฬิกาที่สถานี",
    joint="",
    stop=" ",
)
CHINESE = _of(
    "年老的钟表匠/我的姐姐/新来的老师/最后一班火车/黑色的猫/面包店的老板/每一位游客/市长的秘书/河边的博物馆",
    "总是记得/慢慢修理/从不出售/到处寻找/在信里描写/经常路过/偶尔忘记",
    "那座旧木桥/丢失的钥匙/蓝色的雨伞/刚出炉的面包/老城的地图/戏院的门票/童年的故事/车站的大钟/去年冬天的账单",
    joint="",
    stop="。",
)
JAPANESE = _of(
    "古い時計屋は/私の姉は/新しい先生は/最終列車は/黒い猫は/パン屋の主人は/旅行者はみんな/川沿いの博物館は",
    "毎朝/ときどき静かに/雨のあとで/市場のそばで/橋の下で/だれよりも早く",
    "古い鍵を探している/青い傘を忘れる/長い手紙を書く/子供たちに昔話をする/焼きたてのパンを売る/町の地図を直す/駅の時計を見上げる",
    joint="",
    stop="。",
)
ENGLISH = _of(
    "the retired watchmaker/my older sister/a travelling salesman/the last train of the day/our neighbour upstairs/"
    "the museum by the river/every second tourist/the mayor's secretary/a stray cat/the baker on the corner",
    "has never forgotten/still looks for/slowly repairs/quietly gave away/describes in a letter/often walks past/"
    "could not afford/refuses to sell/once painted",
    "the wooden bridge/a blue umbrella/the smell of fresh bread/an old map of the harbour/the key to the attic/"
    "a ticket for the opera/the clock at the station/a story from childhood/last winter's bill/a row of poplars",
)
ALL = (
    GERMAN,
    FRENCH,
    POLISH,
    TURKISH,
    VIETNAMESE,
    RUSSIAN,
    ARABIC,
    HEBREW,
    HINDI,
    KOREAN,
    GREEK,
    THAI,
    CHINESE,
    JAPANESE,
)
SPACED = (GERMAN, FRENCH, POLISH, TURKISH, VIETNAMESE, RUSSIAN, ARABIC, HEBREW, HINDI, KOREAN, GREEK)
UNSPACED = (THAI, CHINESE, JAPANESE)
